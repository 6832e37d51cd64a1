import { type Disk, hasCode } from '@stevedore/disk';
import { BATCH_BYTES, BATCH_RECORDS, RECORD_HEADER_BYTES } from './constants.js';
import { StoreError } from './errors.js';
import type { FileMapChange } from './filemap-change.js';
import { encodeRecordHead, type NewRecord } from './record.js';
import { changeOfRecord } from './records.js';
import { Segment } from './segment.js';

/**
 * The Files Container: append-only segments with one writer. Appends that wait
 * while a sync is under way are written together by the next one (group commit):
 * one writev, one fdatasync, one FileMap transaction, then all are acknowledged.
 *
 * After a failed write or sync the segment takes no more records: what the system
 * still holds of it is unknown. Its acknowledged records stay readable.
 */
export interface ContainerOptions {
  readonly disk: Disk;
  readonly folder: string;
  readonly origin: number;
  readonly now: () => number;
  /** False: acknowledge once the operating system has the bytes. */
  readonly sync: boolean;
  readonly segmentBytes: number;
  /** Number of the first segment to begin. */
  readonly nextSegment: number;
  /** Makes a batch visible; called before its appends resolve. Must not fail. */
  readonly commit: (
    changes: readonly FileMapChange[],
    segment: number,
    indexedBytes: number,
  ) => void;
}

interface Append {
  readonly records: readonly NewRecord[];
  readonly bytes: number;
  readonly sync: boolean;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class Container {
  readonly #options: ContainerOptions;
  readonly #segments = new Map<number, Segment>();
  #current: Segment | undefined;
  #nextSegment: number;
  /** Segments with records that the disk may not have. */
  readonly #unsynced = new Set<Segment>();
  /** Number of the first segment that is not an earlier process's. */
  readonly firstOwnSegment: number;
  #queue: Append[] = [];
  #queuedBytes = 0;
  #writing: Promise<void> | undefined;
  #closed = false;

  constructor(options: ContainerOptions) {
    this.#options = options;
    this.#nextSegment = options.nextSegment;
    this.firstOwnSegment = options.nextSegment;
  }

  /** Makes a segment of an earlier process readable. */
  adopt(segment: Segment): void {
    this.#segments.set(segment.number, segment);
  }

  /** Bytes of all segments, and of the appends that wait to be written. */
  get bytes(): number {
    let sum = this.#queuedBytes;
    for (const segment of this.#segments.values()) sum += segment.bytes;
    return sum;
  }

  segment(number: number): Segment | undefined {
    return this.#segments.get(number);
  }

  /** Oldest first; the last one may be the one being written. */
  segments(): Segment[] {
    return [...this.#segments.values()].sort((a, b) => a.number - b.number);
  }

  isCurrent(segment: Segment): boolean {
    return segment === this.#current;
  }

  /**
   * Resolves once the records are durable and visible in the FileMap. Records of
   * one call are in one batch. `sync` may ask for less than the container's own
   * durability: then they are visible once the system has them. Rejects with StoreError
   * `container_full` (no space on the disk) or `container_write_failed`; then none of
   * them will be seen.
   */
  append(records: readonly NewRecord[], sync = this.#options.sync): Promise<void> {
    if (this.#closed) {
      return Promise.reject(
        new StoreError('closed', 'the store is closed and takes no more files'),
      );
    }
    const bytes = records.reduce((sum, record) => sum + RECORD_HEADER_BYTES + record.bodyBytes, 0);
    return new Promise((resolve, reject) => {
      this.#queue.push({ records, bytes, sync, resolve, reject });
      this.#queuedBytes += bytes;
      this.#writing ??= this.#writeAll();
    });
  }

  /** Makes what was acknowledged durable, whatever the durability. */
  async sync(): Promise<void> {
    await this.#writing;
    await this.#syncAll();
  }

  /** If it rejects, the segment is still there, to be read and to be removed again. */
  async removeSegment(segment: Segment): Promise<void> {
    await segment.unlink();
    this.#segments.delete(segment.number);
    this.#unsynced.delete(segment);
    await segment.close();
  }

  syncFolder(): Promise<void> {
    return this.#options.disk.syncDirectory(this.#options.folder);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#writing;
    try {
      await this.sync();
    } finally {
      const closed = [...this.#segments.values()].map((segment) => segment.close());
      this.#segments.clear();
      await Promise.all(closed);
    }
  }

  async #writeAll(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#takeBatch();
      try {
        await this.#writeBatch(batch);
        for (const append of batch) append.resolve();
      } catch (error) {
        const failure = await this.#giveUpSegment(error);
        for (const append of batch) append.reject(failure);
      }
    }
    this.#writing = undefined;
  }

  #takeBatch(): Append[] {
    let bytes = 0;
    let records = 0;
    let count = 0;
    for (const append of this.#queue) {
      if (count > 0 && (bytes + append.bytes > BATCH_BYTES || records >= BATCH_RECORDS)) break;
      bytes += append.bytes;
      records += append.records.length;
      count += 1;
    }
    this.#queuedBytes -= bytes;
    return this.#queue.splice(0, count);
  }

  async #writeBatch(batch: readonly Append[]): Promise<void> {
    const segment = await this.#writableSegment();
    const buffers: Uint8Array[] = [];
    const changes: FileMapChange[] = [];
    let at = segment.bytes;
    for (const { records } of batch) {
      for (const record of records) {
        const head = encodeRecordHead(record, segment.number);
        buffers.push(head, ...record.body);
        const bodyOfPlan = record.body[0] as Buffer | undefined;
        changes.push(changeOfRecord({ ...record, bodyOfPlan }, at + head.length));
        at += head.length + record.bodyBytes;
      }
    }
    await segment.write(buffers);
    this.#unsynced.add(segment);
    if (batch.some(({ sync }) => sync)) await this.#sync(segment);
    this.#options.commit(changes, segment.number, at);
    segment.bytes = at;
  }

  async #writableSegment(): Promise<Segment> {
    if (this.#current && this.#current.bytes < this.#options.segmentBytes) return this.#current;
    // What was only handed to the system so far is not left behind.
    if (this.#options.sync) await this.#syncAll();
    const { disk, folder, origin, now } = this.#options;
    const number = this.#nextSegment;
    this.#nextSegment += 1;
    const segment = await Segment.create(disk, folder, number, origin, now());
    this.#segments.set(number, segment);
    this.#current = segment;
    return segment;
  }

  async #syncAll(): Promise<void> {
    for (const segment of this.#unsynced) await this.#sync(segment);
  }

  async #sync(segment: Segment): Promise<void> {
    await segment.sync();
    this.#unsynced.delete(segment);
  }

  /** Ends the segment after a failure and takes back what was written but not acknowledged. */
  async #giveUpSegment(cause: unknown): Promise<StoreError> {
    const segment = this.#current;
    this.#current = undefined;
    if (segment) {
      this.#unsynced.delete(segment);
      await segment.dropInvalidBytes().catch(() => undefined);
    }
    const reason = cause instanceof Error ? cause.message : String(cause);
    if (hasCode(cause, 'ENOSPC') || hasCode(cause, 'EDQUOT')) {
      return new StoreError('container_full', `the container's disk is full (${reason})`, {
        cause,
        retryable: true,
      });
    }
    return new StoreError(
      'container_write_failed',
      `the container could not be written (${reason}); check the disk of ${this.#options.folder}`,
      { cause, retryable: true },
    );
  }
}
