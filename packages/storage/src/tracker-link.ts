import { isIPv6 } from 'node:net';
import { deferred, Wakeup } from '@stevedore/async';
import {
  beat,
  type ChangeList,
  changeStatus,
  type DiskUsage,
  fetchStorageIds,
  getMyIp,
  getServerId,
  type JoinRequest,
  join,
  listStorage,
  parameterReq,
  reportDiskUsage,
  StorageStatus,
  type SyncSource,
  syncDestReq,
  syncNotify,
  syncReport,
} from '@stevedore/protocol';
import {
  type Address,
  asError,
  idOfAddress,
  isOwnAddress,
  keepSession,
  Peer,
  PROTOCOL_VERSION,
} from '@stevedore/wire';
import { isRefusal, refusalOf } from './joining.js';
import { ifThere } from './refusals.js';
import { isUnfinished } from './replication/members.js';
import type { Replication } from './replication/replication.js';
import type { StorageService } from './service.js';
import type { FirstCopyState } from './state-file.js';
import type { StorageSettings } from './storage-options.js';

/**
 * A storage's long-lived connection to one tracker: learns its own address, the cluster's
 * settings and its id, joins, reports disk space and heartbeats, and reconnects whenever the
 * connection breaks.
 *
 * A new storage asks which member to take its first copy from. That member sends it, and the
 * trackers send no requests here until it is complete. If the member goes away, the storage
 * asks for another. The tracker's answers list the group's members when they change; this
 * storage reports its sync timestamps for each of them.
 */

/** A longer list of ids from a tracker is refused. */
const MAX_STORAGE_IDS = 512 * 32;

const DISK_REPORT_INTERVAL_MS = 60_000;
/** Interval of reporting sync timestamps. */
const SYNC_REPORT_INTERVAL_MS = 500;
/** How long the source of a first copy may be away before this storage asks for another. */
const SOURCE_AWAY_MS = 5000;
/**
 * If a first copy has not begun after so many heartbeats, and at least so long, this storage
 * goes away for `AWAY_BEATS` heartbeats; see #leave.
 */
const COPY_BEGINS_BEATS = 2;
const COPY_BEGINS_MIN_MS = 12_000;
const AWAY_BEATS = 1.2;
const SHORTEST_BEAT_MS = 1000;
/** Shortest interval between requested refreshes. */
const REFRESH_INTERVAL_MS = 100;

const UPLOAD_PRIORITY = 10;
const MIB = 1024 * 1024;

export interface TrackerLinkOptions {
  readonly tracker: Address;
  readonly service: StorageService;
  /** The port that the storage listens on. */
  readonly port: number;
  readonly joinedAtSeconds: number;
  readonly startedAtSeconds: number;
  readonly firstCopy: FirstCopyState;
  /** The storage's statistics, 348 bytes encoded. */
  readonly statistics: () => Buffer;
  readonly onActive: () => void;
}

export class TrackerLink {
  readonly #options: TrackerLinkOptions;
  readonly #settings: StorageSettings;
  readonly #replication: Replication;
  readonly #stop = new AbortController();
  readonly #answered = deferred<void>();
  #running: Promise<void> | undefined;
  /** This storage's status as this tracker last sent it. */
  #status: number = StorageStatus.init;
  /** The source of the first copy. */
  #source: SyncSource | undefined;
  #sourceSeenAt = 0;
  /** When the source was assigned. */
  #askedAt = 0;
  /** A longer pause, so that all members see that this storage is away; 0 for the usual one. */
  #awayMs = 0;
  /** True once the tracker has sent the group's members. */
  #knowsMembers = false;
  #beatIntervalMs: number;
  /** Woken whenever there may be something to do. */
  readonly #wakeup = new Wakeup();

  constructor(options: TrackerLinkOptions) {
    this.#options = options;
    this.#settings = options.service.settings;
    this.#beatIntervalMs = this.#settings.beatIntervalMs;
    this.#replication = options.service.replication;
  }

  /**
   * Resolves when the tracker has admitted the storage or turned out to be unreachable. Rejects
   * with OptionError or StartError if it refuses the storage.
   */
  get answered(): Promise<void> {
    return this.#answered.promise;
  }

  /** Joins, and stays joined until `close`. */
  start(): void {
    this.#replication.members.onRefresh(() => this.#wakeup.wake());
    this.#running = keepSession({
      signal: this.#stop.signal,
      session: (serves) => this.#session(serves),
      pauseMs: () => this.#pauseMs(),
      report: (error) => {
        this.#answered.resolve();
        this.#report(error);
      },
    });
    this.#answered.promise.catch(() => undefined);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#wakeup.wake();
    await this.#running;
  }

  #pauseMs(): number {
    const awayMs = this.#awayMs;
    this.#awayMs = 0;
    return Math.max(this.#settings.reconnectDelayMs, awayMs);
  }

  #report(error: unknown): void {
    const { message } = asError(error);
    const where = this.#options.tracker.text;
    this.#settings.onError(new Error(`Tracker ${where}: ${message}`, { cause: error }));
  }

  async #session(active: () => void): Promise<void> {
    const { tracker } = this.#options;
    const { host, access, limits } = this.#settings;
    const localAddress = isOwnAddress(host) ? host : undefined;
    const client = await Peer.open(
      { address: tracker, localAddress, timeoutMs: limits.requestTimeoutMs, access },
      this.#stop.signal,
    );
    try {
      const initial = !this.#options.firstCopy.done;
      await this.#join(client, initial).catch(async (error: unknown) => {
        if (!isRefusal(error)) throw error;
        const refusal = await refusalOf(error, this.#joinRequest(), tracker.text, client);
        this.#answered.reject(refusal);
        throw refusal;
      });
      this.#answered.resolve();
      await this.#settleSync(client, initial);
      await this.#reports(client, active);
    } finally {
      client.close();
    }
  }

  /** Learns what the tracker knows about this storage and the cluster, and joins. */
  async #join(client: Peer, initial: boolean): Promise<void> {
    const { service, port } = this.#options;
    const { identity } = service;
    const seen = await client.ask(getMyIp, { group: this.#settings.group, port });
    identity.learnAddress(seen);
    identity.learnParameters(await client.ask(parameterReq, undefined));
    if (!identity.usesIds && isIPv6(identity.address ?? '')) {
      throw new Error('a storage at an IPv6 address needs a storage id; the tracker has none');
    }
    const storageId = identity.usesIds ? await this.#learnIds(client) : '';
    const memberId = storageId === '' ? idOfAddress(seen) : storageId;
    this.#replication.members.learnOwnId(memberId);
    const trackerAddress = client.remoteAddress;
    const about = { initial, storageId, status: this.#status, trackerAddress };
    this.#status = (await client.ask(join, { ...this.#joinRequest(), ...about })).status;
  }

  /** The join request, without what depends on the connection. */
  #joinRequest(): Omit<JoinRequest, 'status' | 'trackerAddress' | 'initial' | 'storageId'> {
    const { group, trackers, storePaths, subdirectoriesPerPath } = this.#settings;
    const { port, joinedAtSeconds, startedAtSeconds } = this.#options;
    return {
      group,
      port,
      subdirectoriesPerPath,
      joinedAtSeconds,
      startedAtSeconds,
      storePathCount: storePaths.length,
      uploadPriority: UPLOAD_PRIORITY,
      version: PROTOCOL_VERSION,
      trackers: trackers.map(({ text }) => text),
    };
  }

  #usage(): Promise<DiskUsage[]> {
    const spaces = this.#options.service.storePaths.all.map(async (path) => {
      const { totalBytes, freeBytes } = await path.space();
      return {
        totalMegabytes: Math.floor(totalBytes / MIB),
        freeMegabytes: Math.floor(freeBytes / MIB),
      };
    });
    return Promise.all(spaces);
  }

  /** Fetches the list of all ids and the own id; returns the latter. */
  async #learnIds(client: Peer): Promise<string> {
    const { service, port } = this.#options;
    const { identity } = service;
    const lines: string[] = [];
    for (let total = 1; lines.length < total; ) {
      const page = await client.ask(fetchStorageIds, { start: lines.length, allowEmpty: true });
      if (page.total > MAX_STORAGE_IDS || (page.lines.length === 0 && page.total > 0)) {
        throw new Error(`the tracker lists ${page.total} storage ids`);
      }
      total = page.total;
      lines.push(...page.lines);
    }
    const { group } = this.#settings;
    const address = identity.address ?? '';
    const own = await client.ask(getServerId, { group, address, port });
    identity.learnIds(own, lines);
    return own;
  }

  /** Finds a source for the first copy, if one is needed. */
  async #settleSync(client: Peer, initial: boolean): Promise<void> {
    if (!initial) {
      // If this tracker still waits for a first copy, leave it running.
      if (!isUnfinished(this.#status)) await this.#notify(client, undefined);
      return;
    }
    while (!(await this.#choosesSource(client))) {
      // A C tracker would make it ACTIVE with its first heartbeat: ask again before sending one.
      if (isUnfinished(this.#status)) return;
      await this.#wakeup.next(SYNC_REPORT_INTERVAL_MS);
    }
  }

  /** Asks for a source; false while all members that could be one are away. */
  async #choosesSource(client: Peer): Promise<boolean> {
    const answer = await ifThere(client.ask(syncDestReq, undefined).then((source) => ({ source })));
    if (!answer) return false;
    await this.#notify(client, answer.source);
    this.#status = answer.source ? StorageStatus.waitSync : StorageStatus.online;
    return true;
  }

  async #notify(client: Peer, source: SyncSource | undefined): Promise<void> {
    await client.ask(syncNotify, source ?? { sourceId: '', untilSeconds: 0 });
    this.#source = source;
    this.#sourceSeenAt = performance.now();
    this.#askedAt = this.#sourceSeenAt;
  }

  /** Reports until the connection breaks or the link is closed. */
  async #reports(client: Peer, connected: () => void): Promise<void> {
    const { statistics } = this.#options;
    const { synced } = this.#replication;
    let sent: Buffer = Buffer.alloc(0);
    let reported = '';
    let ended = false;
    void client.ended.then(() => {
      ended = true;
      this.#wakeup.wake();
    });
    let beatAt = performance.now();
    let diskAt = beatAt;
    let refreshed = true;
    while (!ended && !this.#stop.signal.aborted) {
      const now = performance.now();
      if (now >= diskAt) {
        this.#learn(await client.ask(reportDiskUsage, await this.#usage()));
        diskAt = now + DISK_REPORT_INTERVAL_MS;
      }
      if (now >= beatAt || refreshed) {
        if (sent.length > 0) await this.#checkBeats(client);
        const current = statistics();
        this.#learn(await client.ask(beat, current.equals(sent) ? undefined : current));
        sent = current;
        beatAt = now + this.#beatIntervalMs;
        connected();
      }
      const times = synced.all;
      const text = JSON.stringify(times);
      if (times.length > 0 && text !== reported) {
        this.#learn(await client.ask(syncReport, times));
        reported = text;
        void synced.save();
      }
      await this.#follow(client);
      const untilNext = Math.min(beatAt, diskAt) - performance.now();
      const waitMs = Math.min(untilNext, SYNC_REPORT_INTERVAL_MS);
      refreshed = (await this.#wakeup.next(waitMs)) || isUnfinished(this.#status);
      // Limit how often a refresh is sent.
      if (refreshed && !ended) await this.#wakeup.next(REFRESH_INTERVAL_MS);
    }
    throw new Error('the tracker has closed the connection');
  }

  /**
   * A tracker counts a storage as OFFLINE if there was no heartbeat for its check_active_interval.
   * It tells nobody how long that is; if it is too short, heartbeats become more frequent.
   */
  async #checkBeats(client: Peer): Promise<void> {
    if (isUnfinished(this.#status) || this.#beatIntervalMs <= SHORTEST_BEAT_MS) return;
    const { ownId = '' } = this.#replication.members;
    const own = await client.ask(listStorage, { group: this.#settings.group, id: ownId });
    if (own[0]?.status !== StorageStatus.offline) return;
    this.#beatIntervalMs = Math.max(this.#beatIntervalMs / 2, SHORTEST_BEAT_MS);
    const seconds = this.#beatIntervalMs / 1000;
    const message = `its check_active_interval passed without a heartbeat, so it counted this storage as OFFLINE; heartbeats now come every ${seconds} s. Set heartbeat to that or less`;
    this.#report(new Error(message));
  }

  #learn({ members }: ChangeList): void {
    const replication = this.#replication;
    if (!members) {
      replication.members.unchanged();
      return;
    }
    this.#knowsMembers = true;
    replication.members.learn(this.#options.tracker.text, members);
    const own = members.find(({ id }) => id === replication.members.ownId);
    if (own) this.#status = own.status;
  }

  /** Reacts to the own status: the first copy is complete, or its source is gone or idle. */
  async #follow(client: Peer): Promise<void> {
    const { firstCopy, onActive } = this.#options;
    if (!isUnfinished(this.#status)) {
      firstCopy.finish();
      // A C tracker sends the members late; it counts a storage with heartbeats as ACTIVE.
      if (!this.#knowsMembers || this.#status === StorageStatus.active) onActive();
      return;
    }
    const now = performance.now();
    const source = this.#source && this.#replication.members.find(this.#source.sourceId);
    if (source?.status === StorageStatus.active) {
      this.#sourceSeenAt = now;
      const beginsMs = COPY_BEGINS_BEATS * this.#settings.beatIntervalMs;
      if (
        this.#status === StorageStatus.waitSync &&
        now - this.#askedAt > Math.max(beginsMs, COPY_BEGINS_MIN_MS)
      ) {
        await this.#leave(client);
      }
    } else if (!this.#source || now - this.#sourceSeenAt > SOURCE_AWAY_MS) {
      await this.#settleSync(client, true);
    }
  }

  /**
   * A C storage starts no first copy for a member that it knows as ACTIVE until it has seen it
   * OFFLINE, and it learns the members' statuses only with its heartbeats. So this storage goes
   * OFFLINE, which trackers pass on if it was ACTIVE, and starts over later.
   */
  async #leave(client: Peer): Promise<never> {
    await client.ask(changeStatus, StorageStatus.offline);
    await client.ask(beat, undefined);
    this.#status = StorageStatus.init;
    this.#awayMs = AWAY_BEATS * this.#settings.beatIntervalMs;
    throw new Error('no member has begun the first copy; leaving for a moment, so that all see it');
  }
}
