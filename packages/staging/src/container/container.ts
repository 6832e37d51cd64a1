import type { Disk } from '@stevedore/disk';
import { messageOf } from '@stevedore/protocol';
import type { Changes } from '../changes.js';
import { isStoreError, StoreError, storeErrorOf } from '../errors.js';
import type { FileMap, FileMapChange, FileRow } from '../filemap/filemap.js';
import { isLocked, pastLocks } from '../filemap/locks.js';
import { type Append, AppendQueue, type Entry } from './append-queue.js';
import { BATCH_RECORDS, encodeSegmentHeader, RECORD_HEADER_BYTES } from './record.js';
import { bodyBytesOf, deletionRecord } from './records.js';
import { Reserve } from './reserve.js';
import { Segment } from './segment.js';
import { Tail } from './tail.js';
import { Unanswered } from './unanswered.js';

/**
 * The Files Container: append-only segments with one writer. Appends that wait while others are
 * written form the next batch (group commit): one durable write, one FileMap transaction, then all
 * are acknowledged. Two batches are in flight at a time, acknowledged in order. A sync follows the
 * write where the disk has no durable writes, or unsynced bytes lie before it.
 *
 * After a failed write or sync the segment accepts no more records, because its state on disk is
 * unknown. Its acknowledged records stay readable. Refused records are cut off. If that fails too,
 * the next successful batch begins with deletions of the refused files, so that no later start
 * finds them.
 *
 * With a partner, a batch is sent there while it is written here. Its appends learn whether the
 * partner has it.
 */
export interface ContainerOptions {
  readonly disk: Disk;
  readonly folder: string;
  readonly origin: number;
  readonly now: () => number;
  /** True: acknowledge durable records only; false: once the operating system has the bytes. */
  readonly sync: boolean;
  readonly segmentBytes: number;
  /** Number of the first segment to begin. */
  readonly nextSegment: number;
  /** Memory for what was written last. */
  readonly tailBytes: number;
  /** Makes a batch visible before its appends resolve. If it fails, the batch is refused. */
  readonly fileMap: Pick<FileMap, 'apply' | 'setSynced' | 'oldestNeededSegment'>;
  readonly changes: Changes;
  readonly copies?: BatchCopies | undefined;
}

/** A batch, as it is written to the container. */
export interface CopiedBatch {
  readonly segment: number;
  readonly position: number;
  readonly pieces: readonly Uint8Array[];
}

/** Copies every batch of the container to another disk. */
export interface BatchCopies {
  /** False if the other disk may not have it. Never rejects. */
  copy(batch: CopiedBatch): Promise<boolean>;
  /** A copied batch was refused after all. */
  noteRefused(): void;
}

/** A batch in flight to a segment. */
interface Batch {
  readonly appends: readonly Append[];
  /** Deletions of refused files that are written with it. */
  readonly refused: readonly Buffer[];
  readonly segment: Segment;
  readonly changes: readonly FileMapChange[];
  /** Its end in the segment. */
  readonly end: number;
  /** Resolves when it is written. */
  readonly written: Promise<void>;
  /** It is durable once written, if the previous one is. */
  readonly isDurable: boolean;
  /** Whether the partner has it; undefined without one. */
  readonly copied: Promise<boolean> | undefined;
}

/** Maximum number of refused files that could not be cut off. */
const MAX_REFUSED = 100_000;

export class Container {
  readonly #options: ContainerOptions;
  readonly #segments = new Map<number, Segment>();
  /** Bytes of all segments except the current one. */
  #otherBytes = 0;
  #current: Segment | undefined;
  /** The current segment accepts no more records, whatever its size. */
  #isEnded = false;
  #nextSegment: number;
  /** Segments with records that the disk may not have. */
  readonly #unsynced = new Set<Segment>();
  /** Number of the first segment of this process. */
  readonly firstOwnSegment: number;
  readonly reserve: Reserve;
  /** Refused files whose records may still be on disk. */
  #refused: Buffer[] = [];
  readonly #queue = new AppendQueue();
  /** Writes. */
  readonly unanswered = new Unanswered();
  readonly #tail: Tail;
  #writing: Promise<void> | undefined;
  /**
   * Resolves when the batch begun last, and all before it, are acknowledged or refused. Never
   * rejects.
   */
  #settled: Promise<void> = Promise.resolve();
  /** The last sync in the background. */
  #leftBehind: Promise<void> = Promise.resolve();
  #closed = false;
  /** Another program held a lock on the FileMap when it was needed last. */
  #isFileMapLocked = false;

  constructor(options: ContainerOptions) {
    this.#options = options;
    this.#nextSegment = options.nextSegment;
    this.firstOwnSegment = options.nextSegment;
    this.reserve = new Reserve(options.disk, options.folder);
    const { fileMap } = options;
    this.#tail = new Tail(options.tailBytes, () => fileMap.oldestNeededSegment() ?? Infinity);
  }

  /** Makes a segment of an earlier process readable. */
  adopt(segment: Segment): void {
    this.#segments.set(segment.number, segment);
    this.#otherBytes += segment.end;
  }

  /** Bytes of all segments, and of the appends that wait to be written. */
  get bytes(): number {
    return this.#queue.bytes + this.#otherBytes + (this.#current?.end ?? 0);
  }

  /** Call after a change to the current segment or the set of segments. */
  #sumOthers(): void {
    this.#otherBytes = 0;
    for (const segment of this.#segments.values()) {
      if (segment !== this.#current) this.#otherBytes += segment.end;
    }
  }

  /** Resolves when the batches begun so far are acknowledged or refused. */
  get settled(): Promise<void> {
    return this.#settled;
  }

  segment(number: number): Segment | undefined {
    return this.#segments.get(number);
  }

  /** A view of bytes that were written lately, for this turn; undefined if they are not in memory. */
  inMemory(segment: number, position: number, bytes: number): Buffer | undefined {
    return this.#tail.find(segment, position, bytes);
  }

  /** Small files in memory, until `release`; undefined unless all of them are. */
  pin(
    rows: readonly Pick<FileRow, 'local' | 'size'>[],
  ): { readonly bodies: readonly Buffer[]; readonly release: () => void } | undefined {
    return this.#tail.pin(rows);
  }

  /** Oldest first; the last one may be the one being written. */
  segments(): Segment[] {
    return [...this.#segments.values()].sort((a, b) => a.number - b.number);
  }

  isCurrent(segment: Segment): boolean {
    return segment === this.#current;
  }

  /**
   * Resolves once the records are durable and visible in the FileMap. Records of one call are in
   * one batch. `sync` may ask for less than the container's own durability: then they are visible
   * once they are in the page cache. Resolves with false if a second copy is wanted and the partner
   * may not have it. Rejects with StoreError `disk_full`, `disk_failed`, `overloaded` or
   * `filemap_locked`; then none of the records is ever visible.
   */
  append(entries: readonly Entry[], sync = this.#options.sync): Promise<boolean> {
    if (this.#closed) {
      return Promise.reject(new StoreError('closed', 'the store is closed'));
    }
    let bytes = RECORD_HEADER_BYTES * entries.length;
    for (const entry of entries) bytes += bodyBytesOf(entry);
    return new Promise((resolve, reject) => {
      this.#queue.add({ entries, bytes, sync, resolve, reject });
      this.#writing ??= this.#writeAll();
    });
  }

  /** Syncs all acknowledged records, whatever the durability. */
  async sync(): Promise<void> {
    for (const segment of [...this.#unsynced]) {
      await this.#sync(segment, segment.bytes);
      await pastLocks(() => this.#options.fileMap.setSynced(segment.synced, segment.number));
    }
  }

  /** Begins a new segment, so that the previous one can be removed. */
  async beginSegment(): Promise<void> {
    this.#isEnded = true;
    await this.append([]);
  }

  /** If it rejects, the segment remains readable, and the removal can be retried. */
  async removeSegment(segment: Segment): Promise<void> {
    await segment.unlink();
    this.#segments.delete(segment.number);
    this.#sumOthers();
    this.#unsynced.delete(segment);
    await segment.close();
  }

  syncFolder(): Promise<void> {
    return this.#options.disk.syncDirectory(this.#options.folder);
  }

  async close(): Promise<void> {
    if (this.#refused.length > 0 && !this.#closed) await this.append([]).catch(() => undefined);
    this.#closed = true;
    await this.#writing;
    await this.#settled;
    await this.#leftBehind;
    try {
      await this.sync();
    } finally {
      const closed = [...this.#segments.values()].map((segment) => segment.close());
      this.#segments.clear();
      await Promise.all(closed);
    }
  }

  async #writeAll(): Promise<void> {
    while (!this.#queue.isEmpty) {
      if (!this.#queue.isAlone) await this.#queue.gather();
      await this.#writeBatch();
    }
    this.#writing = undefined;
  }

  /** Begins to write the next batch. Resolves once the previous one is acknowledged or refused. */
  async #writeBatch(): Promise<void> {
    const { appends, settle } = this.#queue.take();
    let batch: Batch;
    try {
      await this.#demandFileMap();
      batch = this.#begin(appends, await this.#writableSegment());
    } catch (error) {
      await this.#settled;
      settle();
      await this.#failSegment(this.#current, error, appends);
      return;
    }
    const before = this.#settled;
    this.#settled = this.#settle(batch, before).finally(settle);
    await before;
  }

  /** A batch that the FileMap cannot take ends its segment, so while it is locked none is written. */
  async #demandFileMap(): Promise<void> {
    if (!this.#isFileMapLocked) return;
    // Changes nothing, but needs the lock.
    await pastLocks(() => this.#options.fileMap.setSynced(0, 0));
    this.#isFileMapLocked = false;
  }

  #begin(appends: readonly Append[], segment: Segment): Batch {
    // The segment may have failed since it was chosen.
    if (segment.failure !== undefined) throw segment.failure;
    const start = segment.end;
    const refused = this.#refused.slice(0, BATCH_RECORDS);
    const memory = this.#tail.begin(segment.number, start);
    const changes: FileMapChange[] = [];
    try {
      for (const key of refused) {
        changes.push(memory.add(deletionRecord(key, this.#options.now())));
      }
      for (const { entries } of appends) {
        for (const entry of entries) changes.push(memory.add(entry));
      }
    } catch (error) {
      memory.release();
      throw error;
    }
    memory.end();
    const { pieces, position: end } = memory;
    const durably = appends.some(({ sync }) => sync);
    const { done, isDurable } = segment.write(pieces, end - start, durably);
    this.unanswered.add(done);
    const batch = { segment: segment.number, position: start, pieces };
    const copied = this.#options.copies?.copy(batch);
    // The error is handled where the batch is settled, which may be later.
    void Promise.allSettled([done, copied]).then(() => memory.release());
    this.#refused = this.#refused.slice(refused.length);
    return { appends, refused, segment, changes, end, written: done, isDurable, copied };
  }

  async #settle(batch: Batch, before: Promise<void>): Promise<void> {
    const { appends, refused, segment, changes, end, written, isDurable, copied } = batch;
    let isCopied: boolean;
    try {
      await before;
      await written;
      isCopied = (await copied) ?? true;
      // The previous batch failed, so this one may be incomplete, too.
      if (segment.failure !== undefined) throw segment.failure;
      if (isDurable) segment.settle(end);
      else if (segment.synced < end) {
        this.#unsynced.add(segment);
        if (appends.some(({ sync }) => sync)) await this.#sync(segment, end);
      }
      const { fileMap } = this.#options;
      await pastLocks(() => fileMap.apply(changes, segment.number, end, segment.synced));
      segment.bytes = end;
    } catch (error) {
      this.#refused.push(...refused);
      await this.#failSegment(segment, error, appends);
      return;
    }
    for (const append of appends) append.resolve(isCopied);
    this.#tellStaged(changes);
  }

  /** Files that were moved are not new: who moved them tells of them. */
  #tellStaged(changes: readonly FileMapChange[]): void {
    let files = 0;
    let bytes = 0;
    let isSpooled = false;
    for (const change of changes) {
      if (change.what !== 'file') continue;
      files += 1;
      if (change.at === 'spool') isSpooled = true;
      else bytes += change.size;
    }
    if (files > 0) this.#options.changes.emit('staged', bytes, isSpooled);
  }

  async #writableSegment(): Promise<Segment> {
    const { disk, folder, origin, now, sync, segmentBytes } = this.#options;
    if (this.#current && this.#current.end < segmentBytes && !this.#isEnded) return this.#current;
    await this.#settled;
    // Syncs what only the operating system has so far. With durability os this runs in the
    // background; callers that rely on it get its failure.
    const left = this.sync();
    if (sync) await left;
    else this.#leftBehind = left.catch(() => undefined);
    await this.#current?.finish();
    this.#current = undefined;
    this.#sumOthers();
    const number = this.#nextSegment;
    this.#nextSegment += 1;
    const previousBytes = this.segments().at(-1)?.bytes ?? 0;
    const header = { segment: number, origin, begunAt: now(), previousBytes };
    const segment = await this.reserve.spend(() =>
      this.unanswered.add(Segment.create(disk, folder, header)),
    );
    this.#segments.set(number, segment);
    this.#current = segment;
    this.#isEnded = false;
    void this.#options.copies?.copy({
      ...{ segment: number, position: 0, pieces: [encodeSegmentHeader(header)] },
    });
    return segment;
  }

  async #sync(segment: Segment, end: number): Promise<void> {
    // A concurrent write adds it again.
    this.#unsynced.delete(segment);
    try {
      await this.unanswered.add(segment.sync(end));
    } catch (error) {
      this.#unsynced.add(segment);
      throw error;
    }
  }

  /** Closes the segment after a failure and cuts off what was written but not acknowledged. */
  async #failSegment(
    segment: Segment | undefined,
    cause: unknown,
    appends: readonly Append[],
  ): Promise<void> {
    if (isLocked(cause)) this.#isFileMapLocked = true;
    if (segment && segment.failure === undefined) {
      segment.failure = cause;
      if (this.#current === segment) this.#current = undefined;
      if (segment.synced >= segment.bytes) this.#unsynced.delete(segment);
      this.#options.copies?.noteRefused();
      await segment.dropInvalidBytes().catch(() => undefined);
      this.#sumOthers();
      await segment.finish();
    }
    if (segment && !segment.isCut) this.#noteRefused(appends);
    const failure = writeFailure(cause, this.#options.folder);
    for (const append of appends) append.reject(failure);
  }

  #noteRefused(appends: readonly Append[]): void {
    for (const { entries } of appends) {
      for (const entry of entries) {
        const isNew = 'what' in entry && this.#refused.length < MAX_REFUSED;
        if (isNew) this.#refused.push(entry.key);
      }
    }
  }
}

function writeFailure(cause: unknown, folder: string): StoreError {
  const failure = storeErrorOf(cause);
  if (isStoreError(failure)) return failure;
  const reason = messageOf(cause);
  const message = `the container could not be written (${reason}); check the disk of ${folder}`;
  return new StoreError('disk_failed', message, { cause });
}
