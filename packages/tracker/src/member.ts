import {
  type DiskUsage,
  decodeStatistics,
  emptyStatistics,
  type JoinRequest,
  type ServerBrief,
  type StorageStatistics,
  StorageStatus,
  type SyncedUntil,
  type SyncSource,
} from '@stevedore/protocol';

/**
 * A storage as the tracker knows it. Its status:
 *
 *     INIT                              --no source to copy from-->   ONLINE
 *     INIT                              --a source to copy from-->    WAIT_SYNC
 *     WAIT_SYNC, SYNCING                --its source reports-->       SYNCING, OFFLINE
 *     OFFLINE, RECOVERY                 --join-->                     ONLINE
 *     DELETED, IP_CHANGED               --join-->                     ONLINE
 *     ONLINE, OFFLINE, RECOVERY         --heartbeat or disk report--> ACTIVE
 *     ONLINE, ACTIVE                    --its connection ends-->      OFFLINE
 *     any but INIT, WAIT_SYNC, SYNCING  --join without files-->       INIT
 *     any but ONLINE, ACTIVE, RECOVERY  --operator-->                 DELETED
 *
 * A storage that is silent for too long counts as OFFLINE until it is heard again.
 */

const { init, waitSync, syncing, ipChanged, deleted, offline, online, active, recovery, none } =
  StorageStatus;

/** The first copy is not complete: no requests yet. */
const UNFINISHED: readonly number[] = [init, waitSync, syncing];
/** A heartbeat does not make these ACTIVE. */
const NOT_ALIVE: readonly number[] = [...UNFINISHED, ipChanged, deleted];
/** A peer's report does not change these. */
const SETTLED: readonly number[] = [init, online, active, recovery];

export class Member {
  readonly id: string;
  readonly readWriteMode: number;
  address: string;
  status: number = none;
  joinRequest: JoinRequest | undefined;
  usage: readonly DiskUsage[] = [];
  #statistics: StorageStatistics = emptyStatistics();
  syncSource: SyncSource | undefined;
  /** It has what its peers changed up to then; 0: unknown. */
  syncedSeconds = 0;
  /** Its sync timestamps: up to when it has the changes of each other member. */
  readonly #syncedFrom = new Map<string, number>();
  currentWritePath = 0;
  readonly #nowSeconds: () => number;
  /** Last heard, by the monotonic clock and by the wall clock. */
  #heardAtMs = 0;
  heardAtSeconds = 0;
  /** The connection that it last joined on; the end of an older one changes nothing. */
  #link: object | undefined;
  /** Its position in the cluster's change log. */
  logPosition = 0;

  constructor(id: string, address: string, readWriteMode: number, nowSeconds: () => number) {
    this.#nowSeconds = nowSeconds;
    this.id = id;
    this.address = address;
    this.readWriteMode = readWriteMode;
  }

  get port(): number {
    return this.joinRequest?.port ?? 0;
  }

  get connected(): boolean {
    return this.#link !== undefined;
  }

  /** Its sync timestamp for that member; 0 if it never reported one. */
  syncedFrom(sourceId: string): number {
    return this.#syncedFrom.get(sourceId) ?? 0;
  }

  /** The reported statistics, with the times that only the tracker knows. */
  get statistics(): StorageStatistics {
    const times = {
      ...this.#statistics.times,
      lastSyncedSeconds: this.syncedSeconds,
      lastHeartBeatSeconds: this.heardAtSeconds,
    };
    return { ...this.#statistics, times };
  }

  /** The status, OFFLINE if the storage is silent for too long. */
  statusAt(nowMs: number, checkActiveIntervalMs: number): number {
    const silent = nowMs - this.#heardAtMs > checkActiveIntervalMs;
    return silent && (this.status === active || this.status === online) ? offline : this.status;
  }

  /** Handles a join; returns the new status. */
  join(request: JoinRequest, address: string, link: object, nowMs: number): number {
    if (request.initial && !UNFINISHED.includes(this.status)) {
      // It is new or has lost its files.
      this.status = init;
      this.#syncedFrom.clear();
    } else if (this.status === none) this.status = online;
    else if (this.status === offline || this.status === recovery) this.status = online;
    else if (this.status === deleted || this.status === ipChanged) this.status = online;
    this.joinRequest = request;
    this.address = address;
    this.#link = link;
    this.#note(nowMs);
    return this.status;
  }

  heard(nowMs: number): void {
    if (!NOT_ALIVE.includes(this.status)) this.status = active;
    this.#note(nowMs);
  }

  #note(nowMs: number): void {
    this.#heardAtMs = nowMs;
    this.heardAtSeconds = this.#nowSeconds();
  }

  beat(statistics: Buffer | undefined, nowMs: number): void {
    if (statistics) this.#statistics = decodeStatistics(statistics);
    this.heard(nowMs);
  }

  reportUsage(usage: readonly DiskUsage[], nowMs: number): void {
    this.usage = usage.slice(0, this.joinRequest?.storePathCount ?? 1);
    this.heard(nowMs);
  }

  leave(link: object): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    if (this.status === online || this.status === active) this.status = offline;
  }

  /** Assigns the source of the first copy, or none. */
  copyFrom(source: SyncSource | undefined): void {
    this.syncSource = source;
    if (source) this.status = waitSync;
    else this.skipFirstCopy();
  }

  /** As `copyFrom`, but reported by the storage itself: a source leaves the status as it is. */
  confirmSource(source: SyncSource | undefined): void {
    if (source) this.syncSource = source;
    else this.skipFirstCopy();
  }

  skipFirstCopy(): void {
    if (UNFINISHED.includes(this.status)) this.status = online;
  }

  /** A peer's report of this one's status: it only advances, or is deleted or moved. */
  reported(status: number): void {
    if (SETTLED.includes(this.status)) return;
    if (status === deleted || status === ipChanged || status > this.status) this.status = status;
  }

  /** Sets the status. ONLINE and ACTIVE become OFFLINE: only a heartbeat makes it ACTIVE. */
  changeStatus(status: number): void {
    this.status = status === online || status === active ? offline : status;
  }

  /** The earliest time of its active peers counts: uploads go to any of them. */
  reportSynced(reports: readonly SyncedUntil[], isActive: (id: string) => boolean): void {
    for (const { sourceId, seconds } of reports) {
      if (seconds > 0) this.#syncedFrom.set(sourceId, seconds);
    }
    const times = reports
      .filter(({ sourceId, seconds }) => seconds > 0 && isActive(sourceId))
      .map(({ seconds }) => seconds);
    if (times.length > 0) this.syncedSeconds = Math.min(...times);
  }

  hasRoom(reservedMegabytes: number): boolean {
    return this.usage.some((path) => path.freeMegabytes > reservedMegabytes);
  }

  nextStorePath(reservedMegabytes: number): number | undefined {
    const count = this.usage.length;
    for (let step = 0; step < count; step++) {
      const index = (this.currentWritePath + step) % count;
      if ((this.usage[index]?.freeMegabytes ?? 0) <= reservedMegabytes) continue;
      this.currentWritePath = (index + 1) % count;
      return index;
    }
    return undefined;
  }

  brief(): ServerBrief {
    return { status: this.status, port: this.port, id: this.id, address: this.address };
  }
}
