import { isIPv6 } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  beat,
  type DiskUsage,
  fetchStorageIds,
  getMyIp,
  getServerId,
  type JoinRequest,
  join,
  parameterReq,
  reportDiskUsage,
  Status,
  StorageStatus,
  syncDestReq,
  syncNotify,
} from '@stevedore/protocol';
import { asError, StatusError } from '../errors.js';
import { FrameClient } from '../net/frame-client.js';
import { type Endpoint, endpointText, isOwnAddress } from '../options.js';
import type { Identity } from './identity.js';

/**
 * The long connection of a storage to one tracker: asks for the own address, the
 * cluster's settings and the own id, joins, reports room and life, and begins again
 * whenever it breaks. Only the first failure in a row is reported.
 *
 * A new storage asks whom to copy from, as every tracker expects of it, and says
 * that it copies from nobody: it starts with the files that will be sent to it.
 */

/** Ids that a tracker may list before it is not believed any more. */
const MAX_STORAGE_IDS = 512 * 32;

/** Whether a tracker has seen this storage for the first time; all links share it. */
export interface FirstSync {
  done: boolean;
}

export interface TrackerLinkOptions {
  readonly tracker: Endpoint;
  /** Address the storage listens on; the connection comes from it if it names one. */
  readonly host: string;
  readonly port: number;
  readonly identity: Identity;
  readonly timeoutMs: number;
  readonly beatIntervalMs: number;
  readonly diskReportIntervalMs: number;
  readonly reconnectDelayMs: number;
  /** The join of this storage, but for what the connection tells. */
  readonly joinRequest: Omit<JoinRequest, 'status' | 'trackerAddress' | 'initial' | 'storageId'>;
  readonly firstSync: FirstSync;
  /** The 348 bytes of what this storage has done. */
  statistics(): Buffer;
  usage(): Promise<readonly DiskUsage[]>;
  readonly onActive: () => void;
  readonly onError: (error: Error) => void;
}

export class TrackerLink {
  readonly #options: TrackerLinkOptions;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  /** Own status as this tracker last told it. */
  #status: number = StorageStatus.init;

  constructor(options: TrackerLinkOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  close(): Promise<void> {
    this.#stop.abort();
    return this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let failed = false;
    while (!signal.aborted) {
      try {
        await this.#session(() => {
          failed = false;
        });
      } catch (error) {
        if (!failed && !signal.aborted) this.#report(error);
        failed = true;
      }
      await this.#pause(this.#options.reconnectDelayMs);
    }
  }

  async #session(active: () => void): Promise<void> {
    const { tracker, host, identity, joinRequest, timeoutMs } = this.#options;
    const localAddress = isOwnAddress(host) ? { localAddress: host } : {};
    const client = await FrameClient.open(
      { ...tracker, ...localAddress, timeoutMs },
      this.#stop.signal,
    );
    try {
      const { group, port } = joinRequest;
      identity.learnAddress(await client.ask(getMyIp, { group, port }));
      identity.learnParameters(await client.ask(parameterReq, undefined));
      if (!identity.usesIds && isIPv6(identity.address ?? '')) {
        throw new Error('a storage at an IPv6 address needs a storage id; the tracker has none');
      }
      const storageId = identity.usesIds ? await this.#learnIds(client) : '';
      const trackerAddress = client.remoteAddress;
      const initial = !this.#options.firstSync.done;
      const request = { ...joinRequest, initial, storageId, status: this.#status, trackerAddress };
      this.#status = (await client.ask(join, request)).status;
      await this.#settleSync(client, initial);
      await this.#reports(client, () => {
        active();
        this.#options.onActive();
      });
    } finally {
      client.close();
    }
  }

  /** The list of all ids and the own one, which is the answer. */
  async #learnIds(client: FrameClient): Promise<string> {
    const { identity, joinRequest } = this.#options;
    const lines: string[] = [];
    for (let total = 1; lines.length < total; ) {
      const page = await client.ask(fetchStorageIds, { start: lines.length, allowEmpty: true });
      if (page.total > MAX_STORAGE_IDS || (page.lines.length === 0 && page.total > 0)) {
        throw new Error(`the tracker lists ${page.total} storage ids`);
      }
      total = page.total;
      lines.push(...page.lines);
    }
    const { group, port } = joinRequest;
    const address = identity.address ?? '';
    const own = await client.ask(getServerId, { group, address, port });
    identity.learnIds(own, lines);
    return own;
  }

  async #settleSync(client: FrameClient, initial: boolean): Promise<void> {
    if (initial) {
      try {
        await client.ask(syncDestReq, undefined);
      } catch (error) {
        // Status 2: those it could copy from are away. It copies from nobody anyway.
        if (!(error instanceof StatusError) || error.status !== Status.notFound) throw error;
      }
    }
    await client.ask(syncNotify, { sourceId: '', untilSeconds: 0 });
    this.#options.firstSync.done = true;
  }

  /** Reports until the connection breaks or the link is closed. */
  async #reports(client: FrameClient, active: () => void): Promise<void> {
    const { beatIntervalMs, diskReportIntervalMs, usage, statistics } = this.#options;
    let sent: Buffer = Buffer.alloc(0);
    let ended = false;
    const end = client.ended.then(() => {
      ended = true;
    });
    let beatAt = performance.now();
    let diskAt = beatAt;
    while (!ended && !this.#stop.signal.aborted) {
      const now = performance.now();
      if (now >= diskAt) {
        await client.ask(reportDiskUsage, await usage());
        diskAt = now + diskReportIntervalMs;
      }
      if (now >= beatAt) {
        const current = statistics();
        await client.ask(beat, current.equals(sent) ? undefined : current);
        sent = current;
        beatAt = now + beatIntervalMs;
        active();
      }
      await this.#pause(Math.min(beatAt, diskAt) - performance.now(), end);
    }
    throw new Error('the tracker has closed the connection');
  }

  /** Waits, though not beyond `end` or the closing of the link. */
  async #pause(ms: number, end?: Promise<void>): Promise<void> {
    const over = new AbortController();
    const stopped = (): void => over.abort();
    this.#stop.signal.addEventListener('abort', stopped);
    if (this.#stop.signal.aborted) stopped();
    const waited = sleep(Math.max(ms, 1), undefined, { signal: over.signal }).catch(() => {});
    await Promise.race(end ? [waited, end] : [waited]);
    this.#stop.signal.removeEventListener('abort', stopped);
    stopped();
  }

  #report(error: unknown): void {
    const { message } = asError(error);
    this.#options.onError(
      new Error(`Tracker ${endpointText(this.#options.tracker)}: ${message}`, { cause: error }),
    );
  }
}
