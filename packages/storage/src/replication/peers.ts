import { Listeners } from '@stevedore/async';
import { decodeFields, type FileId } from '@stevedore/protocol';
import { isOwnAddress } from '@stevedore/wire';
import { logDirectory } from '../layout.js';
import { tryAgain } from '../refusals.js';
import type { StorageService } from '../service.js';
import type { Position } from './binlog.js';
import { FirstCopies } from './first-copies.js';
import { isUnfinished } from './members.js';
import { PeerSender, type ReplicationStatus } from './peer-sender.js';
import { MarkKeeper } from './progress.js';
import type { Copiers } from './replication.js';
import { Sending } from './sending.js';

/**
 * Runs a sender for every other member of the group, and decides who changes a file: its
 * source or, once that has left the group for good, the member with the lowest id that is not
 * read-only.
 */

/** Interval of removing tombstones that all members have acknowledged. */
const FORGET_INTERVAL_MS = 5000;

export class Peers implements Copiers {
  readonly #service: StorageService;
  readonly #sending: Sending;
  readonly #firstCopies: FirstCopies;
  readonly #localAddress: string | undefined;
  readonly #senders = new Map<string, PeerSender>();
  readonly #closing: Promise<void>[] = [];
  readonly #waiting = new Listeners();
  #stopFollowing = (): void => {};
  #forgetting: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(service: StorageService) {
    const { settings, replication } = service;
    const { members } = replication;
    this.#service = service;
    this.#sending = new Sending(service, (id) => this.#whyNot(id) === undefined);
    this.#localAddress = isOwnAddress(settings.host) ? settings.host : undefined;
    const { group, limits, access, trackers } = settings;
    this.#firstCopies = new FirstCopies({
      group,
      members,
      trackers,
      peer: { localAddress: this.#localAddress, timeoutMs: limits.requestTimeoutMs, access },
    });
  }

  /** Sends to all members that the trackers list, until `close`. */
  start(): void {
    const { members } = this.#service.replication;
    this.#stopFollowing = members.onChange(() => this.#follow());
    this.#forgetting = setInterval(() => this.#forgetDeletions(), FORGET_INTERVAL_MS);
    this.#forgetting.unref();
    this.#follow();
  }

  checkCopies(): void {
    const { writeCopies } = this.#service.settings;
    const connected = [...this.#senders.values()].filter(({ isThere }) => isThere).length + 1;
    if (connected < writeCopies) throw tryAgain(`${connected} of ${writeCopies} members are there`);
  }

  async copied(position: Position): Promise<void> {
    const { writeCopies, writeTimeoutMs } = this.#service.settings;
    const deadline = performance.now() + writeTimeoutMs;
    for (;;) {
      const copies = [...this.#senders.values()].filter((each) => each.has(position)).length + 1;
      if (copies >= writeCopies) return;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0 || this.#closed)
        throw tryAgain(`${copies} of ${writeCopies} members have it`);
      await this.#waiting.next(leftMs);
    }
  }

  checkSource(id: FileId): void {
    const { ownStatus } = this.#service.replication.members;
    const isEmpty = ownStatus !== undefined && isUnfinished(ownStatus);
    const why = isEmpty ? 'this storage has not got its first copy' : this.#whyNot(id);
    if (why !== undefined) throw tryAgain(why);
  }

  status(): ReplicationStatus {
    return { members: [...this.#senders.values()].map((sender) => sender.status()) };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stopFollowing();
    clearInterval(this.#forgetting);
    this.#firstCopies.close();
    this.#waiting.wake();
    await Promise.all([...this.#senders.values()].map((sender) => sender.close()));
    await Promise.all(this.#closing);
  }

  /** Why this storage must not change the file; undefined if it may. */
  #whyNot({ base }: FileId): string | undefined {
    const { identity, replication, settings } = this.#service;
    const { areKnown, ownId = '', others } = replication.members;
    const { source } = decodeFields(base);
    if (identity.isSource(source)) return undefined;
    if (settings.trackers.length > 0 && !areKnown) return 'no tracker has listed the members';
    const isSourceThere = others.some(({ id, address }) => id === source || address === source);
    const writing = others.filter(({ id }) => !identity.isReadOnly(id));
    const isOther = isSourceThere || writing.some(({ id }) => id < ownId);
    return isOther ? 'another member changes this file' : undefined;
  }

  /** Starts and closes senders to match the members that the trackers list. */
  #follow(): void {
    const { members } = this.#service.replication;
    if (this.#closed || members.ownId === undefined) return;
    const others = new Set(members.others.map(({ id }) => id));
    for (const [id, sender] of this.#senders) {
      if (others.has(id)) continue;
      this.#senders.delete(id);
      this.#closing.push(sender.close());
    }
    for (const id of others) {
      if (this.#senders.has(id)) continue;
      const sender = this.#sender(id);
      this.#senders.set(id, sender);
      sender.start();
    }
    this.#waiting.wake();
  }

  #sender(id: string): PeerSender {
    const { replication, settings, storePaths } = this.#service;
    const { disk, onError } = settings;
    const directory = logDirectory(storePaths.at(0).path);
    return new PeerSender({
      service: this.#service,
      sending: this.#sending,
      keeper: new MarkKeeper(disk, directory, id, onError),
      firstCopies: this.#firstCopies,
      member: () => replication.members.find(id),
      localAddress: this.#localAddress,
      progressed: () => this.#waiting.wake(),
    });
  }

  /**
   * A member that has a deletion no longer sends the file, and every member passes deletions
   * on. So a file whose deletion all have acknowledged cannot come back. Before its first copy
   * is complete, a member may still be sent deleted files, and keeps its tombstones.
   */
  #forgetDeletions(): void {
    const { members, tombstones, log } = this.#service.replication;
    const { ownStatus } = members;
    if (ownStatus === undefined || isUnfinished(ownStatus)) return;
    const acknowledged = [...this.#senders.values()].map((each) => each.acknowledged);
    tombstones.forget(Math.min(log.end, ...acknowledged));
  }
}
