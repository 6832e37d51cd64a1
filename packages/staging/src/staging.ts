import { EventEmitter } from 'node:events';
import { crc32 } from 'node:zlib';
import { localDisk } from '@stevedore/disk';
import { isBlockListOf } from './block-checksums.js';
import { Compaction } from './compaction.js';
import type { Container } from './container.js';
import { Copies } from './copies.js';
import type { DirectoryLock } from './directory-lock.js';
import { StoreError } from './errors.js';
import { sliceIdOf } from './file-id.js';
import type { DamagePlace, FileMap, FileRow, TrunkRow } from './filemap.js';
import type { Counters } from './filemap-counters.js';
import { type FsckReport, fsck } from './fsck.js';
import { formatKey, KeyMaker } from './key.js';
import { type MergeStats, MergeTask } from './merge-task.js';
import { type OrphanStats, OrphanWatch } from './orphan-watch.js';
import type { OrphanReport } from './orphans.js';
import { type DamageEvent, type DamageStats, Quarantine } from './quarantine.js';
import { seededRandom } from './random.js';
import { Rebuild } from './rebuild.js';
import { deletionRecord, fileRecord, type NewFile } from './records.js';
import { learnBlocks, type RepairParts, Repairs, soundSlice } from './repair.js';
import { Retention, recordOf } from './retention.js';
import { Retirement } from './retirement.js';
import { Room, type RoomStats } from './room.js';
import { type ScrubOptions, type ScrubReport, scrub } from './scrub.js';
import { type ScrubStats, ScrubWatch } from './scrub-watch.js';
import { serial } from './serial.js';
import type { Spool, SpoolWriter } from './spool.js';
import type { StagingOptions } from './staging-options.js';
import { type StartedParts, startUp } from './startup.js';
import { type SentTrunk, TrunkSender } from './trunk-sender.js';
import type { TrunkStore } from './trunk-store.js';
import type { UpkeepOptions } from './upkeep.js';

/**
 * Staging: files are acknowledged once they are durable in the container, readable
 * from then on, and merged into trunks in the background. What this class promises:
 * once acknowledged, never lost, never altered, readable at every moment.
 */
export interface StagingEvents {
  merged: [{ readonly key: string; readonly fileId: string }];
  trunk: [
    {
      readonly kind: 'trunk' | 'whole';
      readonly taskId: string;
      readonly fileId: string;
      readonly files: number;
      readonly bytes: number;
      readonly fill: number;
      /** From the plan to its confirmation. */
      readonly durationMs: number;
    },
  ];
  /** A copy was found damaged; it is not read any more. */
  damage: [DamageEvent];
  error: [Error];
}

export interface StagingStats extends Counters, MergeStats {
  readonly trunks: number;
  readonly containerBytes: number;
  /** Trunks that too few storages have shown to have; this disk keeps its copies. */
  readonly unconfirmedTrunks: number;
  readonly orphans: OrphanStats;
  readonly damage: DamageStats;
  readonly scrub: ScrubStats;
  readonly room: RoomStats;
}

/** Merging starts early when this share of the container is taken. */
const SHORT_SHARE = 0.8;
/** Room that a new segment's header and small records may need beyond a file's bytes. */
const RECORD_ROOM_BYTES = 4096;
/** How long opening waits for a FileMap that was lost, before it goes on in the background. */
const REBUILD_GRACE_MS = 3_000;
const REBUILD_FIRST_MS = 600_000;
const FREE_SPACE_INTERVAL_MS = 1_000;
const EXPIRY_INTERVAL_MS = 10_000;
/** Files that one batch of deletions takes away. */
const EXPIRED_AT_ONCE = 256;
const DEFAULT_MIN_FREE_BYTES = 64 * 2 ** 20;
const DEFAULT_SCRUB_PAUSE_MS = 60_000;
const SCRUB_INTERVAL_MS = 86_400_000;
const DEFAULT_LISTING_GRACE_MS = 300_000;
const DEFAULT_COMPACTION_BYTES_PER_SECOND = 8 * 2 ** 20;

export class Staging extends EventEmitter<StagingEvents> {
  readonly #options: StagingOptions;
  readonly #lock: DirectoryLock;
  readonly #fileMap: FileMap;
  readonly #container: Container;
  readonly #spool: Spool;
  readonly #keys: KeyMaker;
  readonly #merging: MergeTask;
  readonly #retention: Retention;
  readonly #trunkStore: TrunkStore;
  readonly #rebuild: Rebuild;
  readonly #retirement: Retirement;
  readonly #compaction: Compaction;
  readonly #room: Room;
  readonly #copies: Copies;
  readonly #orphans: OrphanWatch;
  readonly #quarantine: Quarantine;
  readonly #repairs: Repairs;
  readonly #scrubs: ScrubWatch;
  readonly #largeRepairs = serial();
  #freeBytes: number;
  /** Possible orphans that were told of. */
  readonly #toldOrphans = new Set<string>();
  readonly #timers: NodeJS.Timeout[] = [];
  /** What there was to report before anybody could listen. */
  #early: Error[] | undefined = [];
  #tidyWanted = false;
  #tidying = false;
  #closing: Promise<void> | undefined;

  private constructor(options: StagingOptions, parts: StartedParts) {
    super();
    this.#options = options;
    this.#lock = parts.lock;
    this.#fileMap = parts.fileMap;
    this.#container = parts.container;
    this.#spool = parts.spool;
    this.#keys = new KeyMaker(parts.origin, options);
    this.#trunkStore = parts.trunkStore;
    const { now, trunkBytes, maxAgeMs, retainBytes } = options;
    const { container, spool, fileMap, trunkStore } = parts;
    this.#retention = new Retention({
      container,
      spool,
      fileMap,
      now,
      retainBytes,
      oldestInUse: () => this.#merging.oldestSegmentInUse(),
    });
    this.#retirement = new Retirement({
      container,
      fileMap,
      retention: this.#retention,
      trunkStore,
      now,
    });
    this.#rebuild = new Rebuild({
      fileMap,
      trunkStore,
      trunks: parts.unread,
      onProgress: options.onRebuild,
      onError: (error) => this.#report(error),
      onAnswered: () => {
        this.#merging.lookAgain();
        this.#tidy();
      },
    });
    this.#freeBytes = parts.freeBytes;
    this.#room = new Room({
      limitBytes: options.containerBytes,
      minFreeBytes: options.minFreeBytes ?? DEFAULT_MIN_FREE_BYTES,
      usedBytes: () => this.#usedBytes(),
      freeBytes: () => this.#freeBytes,
    });
    this.#compaction = new Compaction({
      container,
      fileMap,
      trunkStore,
      now,
      readLocal: (row) => this.read(row),
      readSound: (row) => soundSlice(this.#upkeep(), row, undefined),
      makeRoom: (bytes) => this.#makeRoom(bytes),
      onMoved: (bytes) => this.#merging.noteStaged(bytes, false),
      bytesPerSecond: options.compactionBytesPerSecond ?? DEFAULT_COMPACTION_BYTES_PER_SECOND,
    });
    this.#merging = new MergeTask({
      fileMap,
      sender: new TrunkSender({ container, spool, fileMap, trunkStore, now }),
      now,
      random: seededRandom(now()),
      newTaskId: () => this.#keys.next(),
      trunkBytes,
      maxAgeMs,
      // Trunks that have not been read may hold files of the container already.
      firstSegment: () => (this.#rebuild.isWaiting ? container.firstOwnSegment : 0),
      isShort: () => this.#usedBytes() > options.containerBytes * SHORT_SHARE,
      onSent: (sent, durationMs) => this.#noteSent(sent, durationMs),
      onReleased: () => {
        this.#inBackground(this.#retention.trim());
        this.#tidy();
      },
      onError: (error) => this.#report(error),
      onDamaged: (row) => this.#quarantine.add(row, row.spooled > 0 ? 'spool' : 'container'),
    });
    this.#copies = new Copies({
      fileMap,
      trunkStore,
      wanted: options.confirmCopies ?? 0,
      onConfirmed: () => this.#inBackground(this.#retention.trim()),
      onError: (error) => this.#report(error),
    });
    this.#orphans = this.#makeOrphanWatch();
    this.#quarantine = new Quarantine({
      fileMap,
      now,
      onDamage: (damage) => this.emit('damage', damage),
      onLifted: (key) => this.#merging.takeIn(key),
      onError: (error) => this.#report(error),
    });
    for (const { key } of this.#quarantine.onlyCopies()) this.#merging.leaveOut(key);
    this.#repairs = new Repairs(this.#upkeep());
    this.#scrubs = new ScrubWatch(this.#upkeep(), {
      bytesPerSecond: options.scrubBytesPerSecond ?? 0,
      pauseMs: options.scrubPauseMs ?? DEFAULT_SCRUB_PAUSE_MS,
      intervalMs: SCRUB_INTERVAL_MS,
    });
  }

  #makeOrphanWatch(): OrphanWatch {
    const { now, listingGraceMs = DEFAULT_LISTING_GRACE_MS } = this.#options;
    const container = this.#container;
    return new OrphanWatch({
      fileMap: this.#fileMap,
      trunkStore: this.#trunkStore,
      now,
      graceMs: listingGraceMs,
      syncRecords: () => container.sync(),
      // While a FileMap is made anew, a file that seems to wait may be in another trunk.
      adopt: async (plan, fileId) => this.isComplete && this.#merging.adopt(plan, fileId),
      replace: (trunk, fileId) =>
        container.append([recordOf(this.#fileMap, { ...trunk, fileId }, now())]),
      onReport: (report) => this.#reportOrphans(report),
      onError: (error) => this.#report(error),
    });
  }

  /** Takes the directory, recovers what is in it and starts the Merge Task. */
  static async open(options: StagingOptions): Promise<Staging> {
    const parts = await startUp(options);
    const staging = new Staging(options, parts);
    await staging.#begin(parts);
    return staging;
  }

  async #begin({ problems }: StartedParts): Promise<void> {
    const { directory, disk = localDisk, rebuildsFirst = false } = this.#options;
    this.#early?.push(...problems);
    await this.#rebuild.begin(rebuildsFirst ? REBUILD_FIRST_MS : REBUILD_GRACE_MS);
    // Late enough for the caller to have begun to listen.
    setImmediate(() => {
      const early = this.#early ?? [];
      this.#early = undefined;
      for (const error of early) this.#report(error);
    });
    if (this.#options.findsOrphans ?? true) this.#orphans.start();
    this.#merging.start();
    this.#copies.check();
    this.#scrubs.start();
    this.#inBackground(this.#retention.trim());
    this.#tidy();
    this.#every(FREE_SPACE_INTERVAL_MS, async () => {
      this.#freeBytes = (await disk.space(directory)).freeBytes;
    });
    this.#every(this.#options.expiryIntervalMs ?? EXPIRY_INTERVAL_MS, async () => {
      await this.deleteExpired();
    });
  }

  newKey(): Buffer {
    return this.#keys.next();
  }

  /**
   * Resolves once all of the files are durable; all of them or none. With `sync` false
   * they are durable soon after, and lost if the machine stops before.
   */
  async stage(files: readonly NewFile[], sync = this.#options.sync): Promise<void> {
    const inPlace = files.reduce((sum, file) => sum + (file.body ? file.size : 0), 0);
    await this.#makeRoom(inPlace + RECORD_ROOM_BYTES * files.length);
    await this.#container.append(files.map(fileRecord), sync && this.#options.sync);
    for (const file of files) this.#merging.noteStaged(file.size, file.body === undefined);
  }

  /** Begins a file of its own for a large body; `bytes` is what is known of its length. */
  async beginSpooled(key: Buffer, bytes: number): Promise<SpoolWriter> {
    await this.#makeRoom(bytes);
    return this.#spool.begin(key);
  }

  /** Throws `container_full` if a body that is being spooled takes the last room. */
  checkRoom(): void {
    this.#room.demand(0);
  }

  find(key: Buffer): FileRow | undefined {
    return this.#fileMap.find(key);
  }

  isPacking(key: Buffer): boolean {
    return this.#merging.isPacking(key);
  }

  /**
   * False while a FileMap that was lost is still being made anew: a file that is not
   * found may be one that it does not know yet.
   */
  get isComplete(): boolean {
    return this.#rebuild.isComplete;
  }

  /** The file that compaction moved away from this place of a trunk. */
  forwarded(trunkFileId: string, offset: number): FileRow | undefined {
    return this.#fileMap.forwarded(trunkFileId, offset);
  }

  /** Moves the living files out of trunks that are mostly dead; resolves with how many. */
  async compact(): Promise<number> {
    const moved = await this.#compaction.run();
    await this.#retirement.run();
    return moved;
  }

  /** Holds FileMap, container and FastDFS against each other. */
  fsck(options: UpkeepOptions): Promise<FsckReport> {
    const findOrphans = () =>
      this.#orphans.search({ repair: options.repair, all: true }, options.signal);
    return fsck({ ...this.#upkeep(), findOrphans }, options);
  }

  /** Reads every byte there is, at a bounded rate, against its CRC-32. */
  scrub(options: ScrubOptions): Promise<ScrubReport> {
    return scrub(this.#upkeep(), options);
  }

  #upkeep(): RepairParts {
    return {
      quarantine: this.#quarantine,
      container: this.#container,
      spool: this.#spool,
      fileMap: this.#fileMap,
      trunkStore: this.#trunkStore,
      onMoved: (bytes, spooled) => this.#merging.noteStaged(bytes, spooled),
      now: this.#options.now,
      beginAgain: async (key, bytes) => {
        await this.#makeRoom(bytes);
        return this.#spool.beginAgain(key);
      },
      alone: this.#retention.alone,
      inTurn: this.#largeRepairs,
    };
  }

  isDeleted(key: Buffer): boolean {
    return this.#fileMap.isDeleted(key);
  }

  trunkByFileId(fileId: string): TrunkRow | undefined {
    return this.#fileMap.trunkByFileId(fileId);
  }

  /** The living file whose content begins there in the trunk. */
  findInTrunk(trunk: TrunkRow, offset: number): FileRow | undefined {
    return this.#fileMap.findInTrunk(trunk.id, offset);
  }

  /** The merged file and those of its affinity group beside it, in the trunk's order. */
  groupAround(row: FileRow, limit: number): FileRow[] {
    return this.#fileMap.groupAround(row, limit);
  }

  /** True if `read` or `readSpooled` can give the file's bytes from this disk. */
  isLocal(row: FileRow): boolean {
    const { key, segment, spooled } = row;
    // A file of the spool that is not told of yet may be in the making.
    if (spooled === 2) return false;
    if (spooled === 1) return this.#spool.has(key) && !this.#quarantine.has(key, 'spool');
    return (
      this.#container.segment(segment) !== undefined && !this.#quarantine.has(key, 'container')
    );
  }

  /**
   * The bytes of a small file; undefined when they are no longer on this disk.
   * Throws `corrupt` when they are not those that were stored and FastDFS has no copy.
   */
  async read(row: FileRow): Promise<Buffer | undefined> {
    const segment = this.#container.segment(row.segment);
    if (!segment) return undefined;
    if (!this.#quarantine.has(row.key, 'container')) {
      const bytes = await segment.read(row.position, row.size);
      if (bytes.length === row.size && crc32(bytes) === row.crc32) return bytes;
      this.noteDamage(row, 'container');
    }
    if (row.trunk !== null) return undefined;
    throw new StoreError(
      'corrupt',
      `the staged bytes of ${formatKey(row.key)} are not those that were stored`,
    );
  }

  /** A copy of the file is not what was stored: it is not read any more, and mended if it can be. */
  noteDamage(row: FileRow, place: DamagePlace, storage?: string): void {
    this.#quarantine.add(row, place, storage);
    if (row.trunk === null) this.#merging.leaveOut(row.key);
    else this.#repairs.want(row.key);
  }

  /** Storages, `host:port`, that are not to be asked for the file. */
  damagedAt(key: Buffer): readonly string[] {
    return this.#quarantine.holders(key);
  }

  /** CRC-32s of a large file's blocks, if they are known and its own. */
  blocksOf(row: FileRow): Buffer | undefined {
    const list = this.#fileMap.blocks(row.key);
    return list && isBlockListOf(list, row) ? list : undefined;
  }

  keepBlocks(row: FileRow, list: Buffer): void {
    learnBlocks(this.#fileMap, row, list);
  }

  /** The bytes of a large file that is in the spool. */
  readSpooled(
    row: Pick<FileRow, 'key' | 'size' | 'crc32'>,
    range?: { readonly start: number; readonly end: number },
  ) {
    return this.#spool.read(row.key, row, range);
  }

  /** False if there is no such file (any more). Durable when it resolves. */
  async delete(key: Buffer): Promise<boolean> {
    const row = this.#fileMap.find(key);
    if (!row) {
      if (!this.isComplete && !this.#fileMap.isDeleted(key)) throw unknownYet(key);
      return false;
    }
    await this.#deleteRows([row]);
    return true;
  }

  /** The files of an upload that was marked with `once` since then, in its order. */
  findOnce(once: Buffer, since: number): FileRow[] {
    return this.#fileMap.findOnce(once, since);
  }

  /** Deletes the files whose time is over; resolves with how many. */
  async deleteExpired(): Promise<number> {
    let deleted = 0;
    while (!this.#closing) {
      const rows = this.#fileMap.expired(this.#options.now(), EXPIRED_AT_ONCE);
      if (rows.length === 0) break;
      await this.#deleteRows(rows);
      deleted += rows.length;
    }
    return deleted;
  }

  async #deleteRows(rows: readonly FileRow[]): Promise<void> {
    const now = this.#options.now();
    await this.#container.append(rows.map(({ key }) => deletionRecord(key, now)));
    for (const { key, spooled } of rows) {
      this.#quarantine.forget(key);
      this.#merging.takeIn(key);
      if (spooled === 1 && !this.isPacking(key)) this.#inBackground(this.#spool.remove(key));
    }
    if (rows.some(({ trunk, was }) => trunk !== null || was !== null)) this.#tidy();
  }

  flush(signal?: AbortSignal): Promise<void> {
    return this.#merging.flush(signal);
  }

  stats(): StagingStats {
    return {
      ...this.#fileMap.counters(),
      trunks: this.#fileMap.countTrunks(),
      containerBytes: this.#usedBytes(),
      ...this.#merging.stats(),
      room: this.#room.stats(),
      unconfirmedTrunks: this.#fileMap.countUncopied(),
      orphans: this.#orphans.stats(),
      damage: this.#quarantine.stats(),
      scrub: this.#scrubs.stats(),
    };
  }

  /** True while a small file would be taken. */
  hasRoom(): boolean {
    return this.#room.has(RECORD_ROOM_BYTES);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Goes on to the end whatever fails on the way; rejects with the first failure. */
  async #close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    const failures: unknown[] = [];
    const steps = [
      () => this.#rebuild.stop(),
      () => Promise.all([this.#scrubs.stop(), this.#repairs.stop()]),
      () => this.#compaction.stop(),
      () => Promise.all([this.#orphans.stop(), this.#merging.stop()]),
      () => this.#copies.stop(),
      () => this.#retirement.stop(),
      () => this.#retention.trim().catch(() => undefined),
      () => this.#container.close(),
      () => this.#fileMap.checkpoint(),
      () => this.#fileMap.close(),
      () => this.#lock.release(),
    ];
    for (const step of steps) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  #usedBytes(): number {
    return this.#container.bytes + this.#spool.bytes;
  }

  async #makeRoom(bytes: number): Promise<void> {
    const excess = this.#room.excess(bytes);
    if (excess > 0) {
      this.#merging.wake();
      await this.#retention.trim(excess);
    }
    this.#room.demand(bytes);
  }

  #noteSent({ plan, fileId }: SentTrunk, durationMs: number): void {
    const { size, rows, members, taskId, kind } = plan;
    this.#copies.check();
    if (this.listenerCount('merged') > 0) {
      for (const [index, row] of rows.entries()) {
        const id = kind === 'whole' ? fileId : sliceIdOf(row, fileId, members[index]!.offset);
        if (id !== undefined) this.emit('merged', { key: formatKey(row.key), fileId: id });
      }
    }
    this.emit('trunk', {
      kind,
      taskId: formatKey(taskId),
      fileId,
      files: rows.length,
      bytes: size,
      fill: kind === 'whole' ? 1 : size / this.#options.trunkBytes,
      durationMs,
    });
    // A large file that was deleted while it was on its way.
    const first = rows[0]!.key;
    if (kind === 'whole' && !this.#fileMap.find(first)) {
      this.#inBackground(this.#spool.remove(first));
    }
  }

  /** Deletes trunks that are dead and empties those that are nearly so. */
  #tidy(): void {
    this.#tidyWanted = true;
    if (this.#tidying) return;
    this.#tidying = true;
    const tidied = this.#tidyWhileWanted().finally(() => {
      this.#tidying = false;
    });
    this.#inBackground(tidied);
  }

  async #tidyWhileWanted(): Promise<void> {
    while (this.#tidyWanted && !this.#closing) {
      this.#tidyWanted = false;
      await this.#retirement.run();
      if (!this.#closing && !this.#rebuild.isWaiting) await this.#compaction.run();
    }
  }

  #reportOrphans({ orphans, possible }: OrphanReport): void {
    for (const { fileId, bytes, fate, detail } of orphans) {
      if (fate !== 'left') continue;
      const text = `${fileId} (${bytes} bytes) is in FastDFS and in no record: ${detail}`;
      this.#report(new StoreError('storage_unavailable', text, { retryable: true }));
    }
    for (const { fileId, bytes, key } of possible) {
      if (this.#toldOrphans.has(fileId)) continue;
      this.#toldOrphans.add(fileId);
      const text = `${fileId} (${bytes} bytes) may be a second copy of ${key ?? 'a large file that was deleted'}; it is left, for it may be another program's`;
      this.#report(new StoreError('storage_unavailable', text));
    }
  }

  /** Repeats the work until the store is closed; one run at a time. */
  #every(ms: number, work: () => Promise<void>): void {
    let running = false;
    const timer = setInterval(() => {
      if (running) return;
      running = true;
      this.#inBackground(
        work().finally(() => {
          running = false;
        }),
      );
    }, ms);
    timer.unref();
    this.#timers.push(timer);
  }

  #inBackground(work: Promise<unknown>): void {
    work.catch((error) => {
      if (!this.#closing) this.#report(error as Error);
    });
  }

  #report(error: Error): void {
    if (this.#early) this.#early.push(error);
    else if (this.listenerCount('error') > 0) this.emit('error', error);
  }
}

/** What is answered instead of "not found" while the FileMap is being made anew. */
function unknownYet(key: Buffer): StoreError {
  return new StoreError(
    'storage_unavailable',
    `the FileMap is being made anew and does not know ${formatKey(key)} yet`,
    { retryable: true },
  );
}
