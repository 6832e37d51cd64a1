import { EventEmitter } from 'node:events';
import { serial } from '@stevedore/async';
import { type Disk, privateDisk } from '@stevedore/disk';
import { Background } from './background.js';
import { Acceptance } from './container/acceptance.js';
import { LocalCopies } from './container/local-copies.js';
import type { Spool } from './container/spool.js';
import type { Unfinished } from './container/unfinished.js';
import type { HeldIndex } from './copies/held-index.js';
import type { StagedCopies } from './copies/staged-copies.js';
import { type TakenOver, takeOver } from './copies/take-over.js';
import { type FileMap, type FileRow, localDamage } from './filemap/filemap.js';
import { pastLocks } from './filemap/locks.js';
import { FOLDERS, freeBytes, tryFolder } from './folders.js';
import { formatKey, KeyMaker } from './key.js';
import { seededRandom } from './merge/candidates.js';
import { Copies } from './merge/copies.js';
import { MergeTask } from './merge/merge-task.js';
import { sliceIdOf, type TrunkPlan } from './merge/trunk-plan.js';
import { type SentTrunk, TrunkSender } from './merge/trunk-sender.js';
import { WaitingFiles } from './merge/waiting-files.js';
import { type AdoptedTrunks, adopt } from './repair/adoption.js';
import { type FsckReport, fsck } from './repair/fsck.js';
import { OrphanWatch } from './repair/orphan-watch.js';
import { Quarantine } from './repair/quarantine.js';
import { Rebuild } from './repair/rebuild.js';
import { type RegisteredFile, register } from './repair/registration.js';
import { Repairs } from './repair/repair.js';
import { type ScrubOptions, type ScrubReport, scrub } from './repair/scrub.js';
import { ScrubWatch } from './repair/scrub-watch.js';
import type { RepairParts, UpkeepOptions } from './repair/sound-copies.js';
import type { StagingEvents, StagingOptions, StagingStats } from './staging-options.js';
import { type StartedParts, startUp } from './startup.js';
import { Cleanup, Compaction, Retirement } from './upkeep/compaction.js';
import { Deletions } from './upkeep/deletions.js';
import { Retention, recordOf } from './upkeep/retention.js';
import { setAside } from './upkeep/set-aside.js';

/** How long opening waits for a FileMap that was lost, before it continues in the background. */
const REBUILD_GRACE_MS = 3_000;
const REBUILD_FIRST_MS = 600_000;
const FREE_SPACE_INTERVAL_MS = 1_000;
const EXPIRY_INTERVAL_MS = 10_000;
/** Maximum interval at which thin trunks are checked for files that must get their ids. */
const JOIN_INTERVAL_MS = 60_000;
const MIN_JOIN_INTERVAL_MS = 1_000;
const MIN_FREE_BYTES = 64 * 2 ** 20;
const SCRUB_PAUSE_MS = 60_000;
const SCRUB_INTERVAL_MS = 86_400_000;
const LISTING_GRACE_MS = 300_000;
const COMPACTION_BYTES_PER_SECOND = 8 * 2 ** 20;

/**
 * Staging: files are acknowledged once they are durable in the container, readable from then on,
 * and merged into trunks in the background. Once acknowledged, a file is never lost, never altered,
 * and always readable. Staging opens its parts, connects them and closes them; callers use the
 * parts.
 */
export class Staging extends EventEmitter<StagingEvents> {
  readonly fileMap: FileMap;
  readonly spool: Spool;
  readonly unfinished: Unfinished;
  /** Part of every key that is made here. */
  readonly origin: number;
  readonly keys: KeyMaker;
  readonly acceptance: Acceptance;
  readonly local: LocalCopies;
  readonly quarantine: Quarantine;
  readonly files: WaitingFiles;
  readonly merging: MergeTask;
  readonly deletions: Deletions;
  readonly rebuild: Rebuild;
  /** The second copy of what is staged, at a partner. */
  readonly copies: StagedCopies | undefined;
  readonly #options: StagingOptions;
  readonly #started: StartedParts;
  readonly #background: Background;
  readonly #repairParts: RepairParts;
  readonly #repairs: Repairs;
  readonly #scrubs: ScrubWatch;
  readonly #copies: Copies;
  readonly #orphans: OrphanWatch;
  readonly #retention: Retention;
  readonly #retirement: Retirement;
  readonly #compaction: Compaction;
  readonly #cleanup: Cleanup;
  #closing: Promise<void> | undefined;

  private constructor(options: StagingOptions, started: StartedParts) {
    super();
    const { container, spool, fileMap, trunkStore } = started;
    const { now, trunkBytes, maxAgeMs, disk = privateDisk } = options;
    const onError = (error: Error): void => this.#background.report(error);
    const stores = { container, spool, fileMap, trunkStore, now };
    this.#options = options;
    this.#started = started;
    this.fileMap = fileMap;
    this.spool = spool;
    this.unfinished = started.unfinished;
    this.origin = started.origin;
    this.keys = new KeyMaker(started.origin, options);
    this.copies = started.copies;
    this.#background = new Background((error) => {
      if (this.listenerCount('error') > 0) this.emit('error', error);
    });
    this.files = new WaitingFiles({
      fileMap,
      // Unread trunks may already hold files of the container.
      firstSegment: () => (this.rebuild.isWaiting ? container.firstOwnSegment : 0),
    });
    this.quarantine = new Quarantine({
      ...{ fileMap, now, onError },
      onDamage: (damage) => this.emit('damage', damage),
      onLifted: (key) => this.#include(key),
    });
    const { idMaxAgeMs = 0 } = options;
    if (idMaxAgeMs === 0) fileMap.keepThinTrunks();
    for (const { key } of this.quarantine.onlyCopies()) this.files.exclude(key);
    this.#retention = new Retention({
      ...{ ...stores, retainBytes: options.retainBytes },
      oldestInUse: () => this.files.oldestSegmentInUse(),
      setAside: (segment, isRoomNeeded) =>
        setAside({ ...this.#repairParts, files: this.files }, segment, isRoomNeeded),
      onReleased: this.copies && ((firstNeeded) => this.copies?.release(firstNeeded)),
    });
    this.#repairParts = {
      ...{ ...stores, quarantine: this.quarantine, alone: this.#retention.alone },
      onMoved: (bytes, spooled) => this.merging.noteStaged(bytes, spooled),
      beginAgain: (key, bytes) => this.acceptance.beginAgain(key, bytes),
      inTurn: serial(),
    };
    this.#repairs = new Repairs(this.#repairParts);
    this.local = new LocalCopies({
      ...this.#repairParts,
      onDamaged: ({ key, trunk, was }) => {
        if (!trunk) this.files.exclude(key);
        if (trunk || was.length > 0) this.#repairs.want(key);
      },
    });
    this.rebuild = new Rebuild({
      ...{ fileMap, trunkStore, trunks: started.unread, onProgress: options.onRebuild, onError },
      onAnswered: () => {
        this.files.lookAgain();
        this.merging.wake();
        this.#cleanup.want();
      },
    });
    this.merging = new MergeTask({
      ...{ files: this.files, fileMap, now, trunkBytes, maxAgeMs, onError },
      idMaxAgeMs,
      sender: new TrunkSender(stores),
      random: seededRandom(options.packingSeed),
      newTaskId: () => this.keys.next(),
      isShort: () => this.acceptance.isShort,
      onSent: (sent, durationMs) => this.#noteSent(sent, durationMs),
      onReleased: (plan) => this.#noteReleased(plan),
      onDamaged: (row) => this.local.noteDamage(row, localDamage(row)),
    });
    this.acceptance = new Acceptance({
      ...{ container, spool, unfinished: this.unfinished },
      ...{ retention: this.#retention, merging: this.merging },
      ...{ sync: options.sync, containerBytes: options.containerBytes },
      minFreeBytes: options.minFreeBytes ?? MIN_FREE_BYTES,
      freeBytes: started.freeBytes,
      readFreeBytes: () => freeBytes(disk, options.directory),
      tryDisk: () => this.#tryDisk(disk),
    });
    this.#retirement = new Retirement({ ...stores, retention: this.#retention });
    this.#compaction = new Compaction({
      ...{ ...this.#repairParts, local: this.local, acceptance: this.acceptance },
      bytesPerSecond: options.compactionBytesPerSecond ?? COMPACTION_BYTES_PER_SECOND,
      files: this.files,
      trunkBytes,
      idMaxAgeMs,
      onEmptied: () => this.merging.wake(),
    });
    this.#cleanup = new Cleanup({
      ...{ retirement: this.#retirement, compaction: this.#compaction },
      ...{ rebuild: this.rebuild, background: this.#background },
    });
    this.deletions = new Deletions({
      ...{ ...stores, quarantine: this.quarantine, files: this.files },
      ...{ rebuild: this.rebuild, background: this.#background, copies: this.copies },
      include: (key) => this.#include(key),
      onDead: () => this.#cleanup.want(),
    });
    this.#copies = new Copies({
      ...{ fileMap, trunkStore, now, wanted: options.confirmCopies ?? 0, onError },
      onConfirmed: () => this.#background.run(this.#retention.trim()),
    });
    this.#orphans = new OrphanWatch({
      ...{ ...stores, onError, graceMs: options.listingGraceMs ?? LISTING_GRACE_MS },
      // During a rebuild, a file that seems to wait may be in another trunk.
      adopt: async (plan, fileId) =>
        this.rebuild.isComplete && this.merging.inFlight.adopt(plan, fileId),
      replace: async (trunk, fileId) => {
        await container.append([recordOf(fileMap, { ...trunk, fileId }, now())]);
      },
    });
    this.#scrubs = new ScrubWatch(this.#repairParts, {
      bytesPerSecond: options.scrubBytesPerSecond ?? 0,
      pauseMs: options.scrubPauseMs ?? SCRUB_PAUSE_MS,
      intervalMs: SCRUB_INTERVAL_MS,
    });
  }

  /** Locks the directory, recovers its content and starts the Merge Task. */
  static async open(options: StagingOptions): Promise<Staging> {
    const started = await startUp(options);
    const staging = new Staging(options, started);
    await staging.#begin(started);
    return staging;
  }

  async #begin({ problems }: StartedParts): Promise<void> {
    const { rebuildsFirst = false, findsOrphans = true, expiryIntervalMs } = this.#options;
    const { unfinishedAgeMs = Number.POSITIVE_INFINITY } = this.#options;
    const background = this.#background;
    for (const problem of problems) background.report(problem);
    void this.#started.lock.lost.then((error) => {
      background.report(error);
      return this.close().catch(() => undefined);
    });
    await this.rebuild.begin(rebuildsFirst ? REBUILD_FIRST_MS : REBUILD_GRACE_MS);
    background.tellSoon();
    this.copies?.start({
      container: this.#started.container,
      firstNeeded: () => this.#retention.firstNeeded(),
      store: (keys, signal) => this.merging.store(keys, signal),
      storeFailure: () => this.merging.inFlight.failure,
      discard: (keys) => this.deletions.discard(keys),
      onError: (error) => background.report(error),
    });
    if (findsOrphans) this.#orphans.start();
    this.merging.start();
    this.#copies.check();
    this.#scrubs.start();
    background.run(this.#retention.trim());
    this.#cleanup.want();
    for (const { key, was } of this.quarantine.onlyCopies()) {
      if (was.length > 0) this.#repairs.want(key);
    }
    const { idMaxAgeMs = 0 } = this.#options;
    if (idMaxAgeMs > 0) {
      const interval = Math.min(JOIN_INTERVAL_MS, Math.max(MIN_JOIN_INTERVAL_MS, idMaxAgeMs));
      background.every(interval, async () => this.#cleanup.want());
    }
    background.every(FREE_SPACE_INTERVAL_MS, () => this.acceptance.lookAtDisk());
    background.every(expiryIntervalMs ?? EXPIRY_INTERVAL_MS, async () => {
      await this.deletions.deleteExpired();
      await this.unfinished.removeOlder(this.#options.now() - unfinishedAgeMs);
    });
  }

  /** Compacts sparse trunks. Resolves with the number of files moved. */
  async compact(): Promise<number> {
    const moved = await this.#compaction.run();
    await this.#retirement.run();
    return moved;
  }

  /**
   * Stages the files held of a gateway that will not return. Its trunks must have been adopted
   * before.
   */
  takeOver(index: HeldIndex): Promise<TakenOver> {
    const { acceptance, copies } = this;
    return takeOver({ ...this.#repairParts, acceptance, copies }, index);
  }

  /** Takes over the trunks of a container that is gone, and starts to read their directories. */
  adopt(adopted: AdoptedTrunks): Promise<void> {
    const { deletions, rebuild } = this;
    return adopt({ ...this.#repairParts, retention: this.#retention, deletions, rebuild }, adopted);
  }

  /** Gives a file that is in FastDFS already a key of this store. */
  register(file: RegisteredFile): Promise<FileRow> {
    return register(this.#repairParts, file);
  }

  /** Compares FileMap, container and FastDFS. */
  fsck(options: UpkeepOptions): Promise<FsckReport> {
    const search = { repair: options.repair, all: true };
    const findOrphans = () => this.#orphans.search(search, options.signal);
    return fsck({ ...this.#repairParts, findOrphans }, options);
  }

  /** Checks every byte against its CRC-32, at a bounded rate. */
  scrub(options: ScrubOptions): Promise<ScrubReport> {
    return scrub(this.#repairParts, options);
  }

  stats(): StagingStats {
    const { fileMap, acceptance } = this;
    return {
      ...fileMap.counters(),
      trunks: fileMap.countTrunks(),
      containerBytes: acceptance.usedBytes,
      ...this.merging.stats(),
      room: acceptance.stats(),
      ...(this.copies ? { copies: this.copies.stats() } : {}),
      unfinishedUploads: this.unfinished.count,
      unfinishedBytes: this.unfinished.bytes,
      unconfirmedTrunks: fileMap.countUncopied(),
      orphans: this.#orphans.stats(),
      damage: this.quarantine.stats(),
      scrub: this.#scrubs.stats(),
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Runs every step, whatever fails. Rejects with the first failure. */
  async #close(): Promise<void> {
    const { container, lock } = this.#started;
    this.#background.end();
    const failures: unknown[] = [];
    const steps = [
      () => this.rebuild.stop(),
      () => Promise.all([this.#scrubs.stop(), this.#repairs.stop()]),
      () => this.#compaction.stop(),
      () => Promise.all([this.#orphans.stop(), this.merging.stop()]),
      () => this.#copies.stop(),
      () => this.#retirement.stop(),
      () => this.#retention.trim().catch(() => undefined),
      () => this.copies?.stop(),
      () => container.close(),
      () => this.fileMap.makeDurable(),
      () => this.fileMap.close(),
      () => lock.release(),
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

  async #tryDisk(disk: Disk): Promise<void> {
    const { directory } = this.#options;
    for (const folder of FOLDERS) await tryFolder(disk, `${directory}/${folder}`);
    await pastLocks(() => this.fileMap.setSynced(0, 0));
  }

  /** The file is sound again, or gone. */
  #include(key: Buffer): void {
    if (this.files.include(key)) this.merging.wake();
  }

  /** The plan has ended: what it reserved can be removed. */
  #noteReleased({ kind, rows }: TrunkPlan): void {
    const { fileMap, spool } = this.#started;
    this.#background.run(this.#retention.trim());
    this.#cleanup.want();
    // The large file may have been deleted while it was in flight.
    const [{ key }] = rows as [FileRow];
    if (kind === 'whole' && !fileMap.find(key)) this.#background.run(spool.remove(key));
  }

  #noteSent({ plan, fileId }: SentTrunk, durationMs: number): void {
    const { size, rows, members, taskId, kind } = plan;
    this.#copies.check();
    // Only one set of thin trunks is joined at a time; there may be another.
    if ((this.#options.idMaxAgeMs ?? 0) > 0) this.#cleanup.want();
    if (!plan.thin && this.listenerCount('merged') > 0) {
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
  }
}
