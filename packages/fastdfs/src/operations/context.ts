import {
  type Command,
  type FetchTarget,
  type FileId,
  queryUpdate,
  Status,
  type StoreTarget,
} from '@stevedore/protocol';
import { type Address, authenticate, Caller } from '@stevedore/wire';
import { LRUCache } from 'lru-cache';
import type { Deadline } from '../deadline.js';
import { FastdfsError } from '../errors.js';
import { connectChannel, type PossibleOrphan, requestChannel } from '../events.js';
import { nameOf } from '../file-ids.js';
import type { Settings } from '../options.js';
import { StorageAddresses } from '../storage-addresses.js';
import { type TrackerReply, Trackers } from '../trackers.js';
import { SharedAnswers } from './shared-answers.js';

/**
 * What every operation needs, and the frame around each: refuses it once the client is closed,
 * repeats it while the server says EAGAIN, settles its deadline.
 */

/** Pauses before repeating a call. */
const FIRST_BUSY_PAUSE_MS = 100;
const BUSY_PAUSE_GROWTH = 3;
const LONGEST_BUSY_PAUSE_MS = 5_000;

const MAX_PLACES = 10_000;
/** How long a file that another client deleted may still be readable here. */
const PLACE_MS = 10_000;

export class Context {
  readonly settings: Settings;
  readonly caller: Caller;
  readonly trackers: Trackers;
  /** Where new files may go. */
  readonly storeAnswers: SharedAnswers<TrackerReply<StoreTarget>>;
  /** Where files are to be read. */
  readonly fetchAnswers: SharedAnswers<TrackerReply<FetchTarget>>;
  readonly addresses: StorageAddresses;
  /** Places of files whose bytes are in another group, as their storages reported. */
  readonly places = new LRUCache<string, FileId>({ max: MAX_PLACES, ttl: PLACE_MS });
  readonly reportOrphan: (orphan: PossibleOrphan | undefined) => void;
  /** Calls repeated because a server was not ready. */
  busyRepeats = 0;

  constructor(settings: Settings, reportOrphan: (orphan: PossibleOrphan | undefined) => void) {
    this.settings = settings;
    this.caller = new Caller({
      ...settings,
      channel: requestChannel,
      // Proves the secret, if the cluster has one.
      hello: (connection, connected, call, timeoutMs) => {
        const address = connection.address.text;
        const introduced = async (): Promise<void> => {
          await connected;
          const { secret } = settings;
          if (secret === undefined || (await authenticate(connection, secret, call, timeoutMs))) {
            return;
          }
          throw call.error('access_denied', 'the server has no secret', { address });
        };
        return connectChannel.hasSubscribers
          ? connectChannel.tracePromise(introduced, { address })
          : introduced();
      },
    });
    this.trackers = new Trackers(this.caller, settings.trackers);
    this.storeAnswers = new SharedAnswers(settings.uploadsPerStoreAnswer);
    this.fetchAnswers = new SharedAnswers(settings.readsPerFetchAnswer);
    this.addresses = new StorageAddresses();
    this.reportOrphan = reportOrphan;
  }

  /** Asks a tracker only. */
  ask<Request, Reply>(
    deadline: Deadline,
    command: Command<Request, Reply>,
    request: Request,
  ): Promise<Reply> {
    return this.run(deadline, async () => {
      const { reply } = await this.trackers.ask(command, request, deadline);
      return reply;
    });
  }

  /** The only storage on which a file may be changed, as the tracker says. */
  async updateTarget(id: FileId, deadline: Deadline): Promise<Address> {
    const { reply, tracker } = await this.trackers.ask(queryUpdate, nameOf(id), deadline);
    return this.addresses.of(reply, tracker, deadline);
  }

  /**
   * Runs one call. EAGAIN is final once `repeatable` returns false. The deadline is settled with it,
   * unless its result is a stream.
   */
  async run<T>(
    deadline: Deadline,
    use: (deadline: Deadline) => Promise<T>,
    repeatable: () => boolean = () => true,
  ): Promise<T> {
    try {
      for (let attempt = 0, pauseMs = FIRST_BUSY_PAUSE_MS; ; attempt++) {
        if (this.caller.pool.closed) throw deadline.error('closed', 'the client is closed');
        try {
          return await use(deadline);
        } catch (error) {
          const busy = error instanceof FastdfsError && error.status === Status.tryAgain;
          if (!busy || attempt >= this.settings.busyRetries || !repeatable()) throw error;
          if (deadline.remainingMs <= pauseMs) throw error;
        }
        this.busyRepeats += 1;
        await deadline.pause(pauseMs);
        pauseMs = Math.min(pauseMs * BUSY_PAUSE_GROWTH, LONGEST_BUSY_PAUSE_MS);
      }
    } finally {
      if (!deadline.isStreaming) deadline.settle();
    }
  }
}
