import { EventEmitter } from 'node:events';
import type { NewFile } from './container/records.js';
import type { SpoolWriter } from './container/spool.js';
import type { DamagePlace, FileRow, TrunkRow } from './filemap/filemap.js';
import { formatKey } from './key.js';
import { sliceIdOf } from './merge/file-id.js';
import type { SentTrunk } from './merge/trunk-sender.js';
import { type FsckReport, fsck } from './repair/fsck.js';
import { OrphanNews } from './repair/orphan-news.js';
import { type ScrubOptions, type ScrubReport, scrub } from './repair/scrub.js';
import type { UpkeepOptions } from './repair/upkeep.js';
import type { StagingEvents, StagingStats } from './staging-events.js';
import type { StagingOptions } from './staging-options.js';
import { assemble, type StagingParts } from './staging-parts.js';
import { type StartedParts, startUp } from './startup.js';

export type { StagingEvents, StagingStats } from './staging-events.js';

/** How long opening waits for a FileMap that was lost, before it goes on in the background. */
const REBUILD_GRACE_MS = 3_000;
const REBUILD_FIRST_MS = 600_000;
const FREE_SPACE_INTERVAL_MS = 1_000;
const EXPIRY_INTERVAL_MS = 10_000;

/**
 * Staging: files are acknowledged once they are durable in the container, readable
 * from then on, and merged into trunks in the background. What this class promises:
 * once acknowledged, never lost, never altered, readable at every moment.
 */
export class Staging extends EventEmitter<StagingEvents> {
  readonly #options: StagingOptions;
  readonly #parts: StagingParts;
  readonly #orphanNews = new OrphanNews();
  #closing: Promise<void> | undefined;

  private constructor(options: StagingOptions, started: StartedParts) {
    super();
    this.#options = options;
    this.#parts = assemble(options, started, {
      onError: (error) => {
        if (this.listenerCount('error') > 0) this.emit('error', error);
      },
      onDamage: (damage) => this.emit('damage', damage),
      onSent: (sent, durationMs) => this.#noteSent(sent, durationMs),
      onOrphans: (report) => {
        for (const error of this.#orphanNews.errors(report)) this.#parts.background.report(error);
      },
    });
  }

  /** Takes the directory, recovers what is in it and starts the Merge Task. */
  static async open(options: StagingOptions): Promise<Staging> {
    const started = await startUp(options);
    const staging = new Staging(options, started);
    await staging.#begin(started);
    return staging;
  }

  async #begin({ problems }: StartedParts): Promise<void> {
    const { rebuildsFirst = false, findsOrphans } = this.#options;
    const { acceptance, background, copies, merging, orphans } = this.#parts;
    const { quarantine, rebuild, repairs, retention, scrubs, tidying } = this.#parts;
    for (const problem of problems) background.report(problem);
    await rebuild.begin(rebuildsFirst ? REBUILD_FIRST_MS : REBUILD_GRACE_MS);
    background.tellSoon();
    if (findsOrphans ?? true) orphans.start();
    merging.start();
    copies.check();
    scrubs.start();
    background.run(retention.trim());
    tidying.want();
    for (const { key, was } of quarantine.onlyCopies()) if (was.length > 0) repairs.want(key);
    background.every(FREE_SPACE_INTERVAL_MS, () => acceptance.lookAtDisk());
    background.every(this.#options.expiryIntervalMs ?? EXPIRY_INTERVAL_MS, async () => {
      await this.deleteExpired();
    });
  }

  newKey(): Buffer {
    return this.#parts.keys.next();
  }

  /**
   * Resolves once all of the files are durable; all of them or none. With `sync` false
   * they are durable soon after, and lost if the machine stops before.
   */
  stage(files: readonly NewFile[], sync = this.#options.sync): Promise<void> {
    return this.#parts.acceptance.stage(files, sync);
  }

  /** Begins a file of its own for a large body; `bytes` is what is known of its length. */
  beginSpooled(key: Buffer, bytes: number): Promise<SpoolWriter> {
    return this.#parts.acceptance.beginSpooled(key, bytes);
  }

  /** Throws `container_full`, `disk_full` if a body that is being spooled takes the last room. */
  checkRoom(): void {
    this.#parts.acceptance.checkRoom();
  }

  /** True while a small file would be taken. */
  hasRoom(): boolean {
    return this.#parts.acceptance.hasRoom();
  }

  find(key: Buffer): FileRow | undefined {
    return this.#parts.fileMap.find(key);
  }

  isPacking(key: Buffer): boolean {
    return this.#parts.merging.isPacking(key);
  }

  isDeleted(key: Buffer): boolean {
    return this.#parts.fileMap.isDeleted(key);
  }

  /**
   * False while a FileMap that was lost is still being made anew: a file that is not
   * found may be one that it does not know yet.
   */
  get isComplete(): boolean {
    return this.#parts.rebuild.isComplete;
  }

  trunkByFileId(fileId: string): TrunkRow | undefined {
    return this.#parts.fileMap.trunkByFileId(fileId);
  }

  /** The living file whose content begins there in the trunk. */
  findInTrunk(trunk: TrunkRow, offset: number): FileRow | undefined {
    return this.#parts.fileMap.findInTrunk(trunk.id, offset);
  }

  /** The file that was moved away from this place of a trunk. */
  forwarded(trunkFileId: string, offset: number): FileRow | undefined {
    return this.#parts.fileMap.forwarded(trunkFileId, offset);
  }

  /** The merged file and those of its affinity group beside it, in the trunk's order. */
  groupAround(row: FileRow, limit: number): FileRow[] {
    return this.#parts.fileMap.groupAround(row, limit);
  }

  /** The files of an upload that was marked with `once` since then, in its order. */
  findOnce(once: Buffer, since: number): FileRow[] {
    return this.#parts.fileMap.findOnce(once, since);
  }

  /** True if `read` or `readSpooled` can give the file's bytes from this disk. */
  isLocal(row: FileRow): boolean {
    return this.#parts.local.has(row);
  }

  /**
   * The bytes of a small file; undefined when they are no longer on this disk, or the file
   * is in FastDFS again.
   * Throws `corrupt` when they are not those that were stored and FastDFS has no copy.
   */
  read(row: FileRow): Promise<Buffer | undefined> {
    return this.#parts.local.read(row);
  }

  /** As `LocalCopies.takeBack`. */
  takeBack(key: Buffer): Promise<boolean> {
    return this.#parts.local.takeBack(key);
  }

  /** The bytes of a large file that is in the spool. */
  readSpooled(
    row: Pick<FileRow, 'key' | 'size' | 'crc32'>,
    range?: { readonly start: number; readonly end: number },
  ): AsyncGenerator<Buffer> {
    return this.#parts.local.readSpooled(row, range);
  }

  /** A copy of the file is not what was stored: it is not read any more, and mended if it can be. */
  noteDamage(row: FileRow, place: DamagePlace, storage?: string): void {
    this.#parts.local.noteDamage(row, place, storage);
  }

  /** Storages, `host:port`, that are not to be asked for the file. */
  damagedAt(key: Buffer): readonly string[] {
    return this.#parts.quarantine.holders(key);
  }

  /** CRC-32s of a large file's blocks, if they are known and its own. */
  blocksOf(row: FileRow): Buffer | undefined {
    return this.#parts.local.blocksOf(row);
  }

  keepBlocks(row: FileRow, list: Buffer): void {
    this.#parts.local.keepBlocks(row, list);
  }

  /** False if there is no such file (any more). Durable when it resolves. */
  delete(key: Buffer): Promise<boolean> {
    return this.#parts.deletions.delete(key);
  }

  /** Deletes the files whose time is over; resolves with how many. */
  deleteExpired(): Promise<number> {
    return this.#parts.deletions.deleteExpired();
  }

  flush(signal?: AbortSignal): Promise<void> {
    return this.#parts.merging.flush(signal);
  }

  /** Moves the living files out of trunks that are mostly dead; resolves with how many. */
  async compact(): Promise<number> {
    const moved = await this.#parts.compaction.run();
    await this.#parts.retirement.run();
    return moved;
  }

  /** Holds FileMap, container and FastDFS against each other. */
  fsck(options: UpkeepOptions): Promise<FsckReport> {
    const { orphans, upkeep } = this.#parts;
    const findOrphans = () => orphans.search({ repair: options.repair, all: true }, options.signal);
    return fsck({ ...upkeep, findOrphans }, options);
  }

  /** Reads every byte there is, at a bounded rate, against its CRC-32. */
  scrub(options: ScrubOptions): Promise<ScrubReport> {
    return scrub(this.#parts.upkeep, options);
  }

  stats(): StagingStats {
    const { fileMap, acceptance, merging, orphans, quarantine, scrubs } = this.#parts;
    return {
      ...fileMap.counters(),
      trunks: fileMap.countTrunks(),
      containerBytes: acceptance.usedBytes,
      ...merging.stats(),
      room: acceptance.stats(),
      unconfirmedTrunks: fileMap.countUncopied(),
      orphans: orphans.stats(),
      damage: quarantine.stats(),
      scrub: scrubs.stats(),
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Goes on to the end whatever fails on the way; rejects with the first failure. */
  async #close(): Promise<void> {
    const parts = this.#parts;
    parts.background.end();
    const failures: unknown[] = [];
    const steps = [
      () => parts.rebuild.stop(),
      () => Promise.all([parts.scrubs.stop(), parts.repairs.stop()]),
      () => parts.compaction.stop(),
      () => Promise.all([parts.orphans.stop(), parts.merging.stop()]),
      () => parts.copies.stop(),
      () => parts.retirement.stop(),
      () => parts.retention.trim().catch(() => undefined),
      () => parts.container.close(),
      () => parts.fileMap.checkpoint(),
      () => parts.fileMap.close(),
      () => parts.lock.release(),
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

  #noteSent({ plan, fileId }: SentTrunk, durationMs: number): void {
    const { size, rows, members, taskId, kind } = plan;
    this.#parts.copies.check();
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
  }
}
