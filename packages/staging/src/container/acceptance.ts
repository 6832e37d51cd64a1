import { serial } from '@stevedore/async';
import { isStoreError, StoreError, type StoreErrorCode, storeErrorOf } from '../errors.js';
import { TRIAL_BYTES } from '../folders.js';
import type { MergeTask } from '../merge/merge-task.js';
import type { Retention } from '../upkeep/retention.js';
import type { Container } from './container.js';
import { fileRecord, type NewFile } from './records.js';
import type { Spool, SpoolWriter } from './spool.js';
import type { Unfinished } from './unfinished.js';

/**
 * Accepts new files: makes room for each before a byte of it is written, and refuses it if there is
 * none. Uploads are refused before the disk is full, so that deletions and stored trunks can still
 * be recorded. The container's limit and the free space of its disk have two thresholds each:
 * uploads are refused past the first and accepted again past the second, so that acceptance does
 * not flap.
 */
export interface AcceptanceParts {
  readonly container: Container;
  readonly spool: Spool;
  readonly unfinished: Unfinished;
  readonly retention: Retention;
  readonly merging: MergeTask;
  /** True: acknowledge files once they are durable; false: once they are in the page cache. */
  readonly sync: boolean;
  /** Uploads are refused at this many bytes. */
  readonly containerBytes: number;
  /** Bytes that must stay free on the disk. */
  readonly minFreeBytes: number;
  /** Free bytes of the disk at the start. */
  readonly freeBytes: number;
  readonly readFreeBytes: () => Promise<number>;
  /** Writes and removes a file in each folder. Throws if an upload could not be written either. */
  readonly tryDisk: () => Promise<void>;
}

export interface RoomStats {
  readonly usedBytes: number;
  /** Uploads are refused at this many bytes ... */
  readonly limitBytes: number;
  /** ... and accepted again below this many. */
  readonly resumeBytes: number;
  /** Free bytes of the disk at the last check. */
  readonly freeBytes: number;
  readonly minFreeBytes: number;
  /** Why uploads are refused now, if they are. */
  readonly full: 'container' | 'disk' | undefined;
}

/** Space that a new segment's header and small records may need in addition to a file's bytes. */
const RECORD_ROOM_BYTES = 4096;
/** Merging starts early when this share of the container is taken. */
const SHORT_SHARE = 0.8;
/** Free space, as a multiple of the minimum, below which read copies are evicted. */
const COMFORT_FACTOR = 1.5;
/** Share of the limit below which a full container accepts files again. */
const RESUME_SHARE = 0.95;
/** Free space, as a multiple of the minimum, at which a full disk is used again. */
const RESUME_FREE_FACTOR = 1.25;

/** Failures that say nothing about one upload alone. */
const TROUBLES: ReadonlySet<StoreErrorCode> = new Set([
  'disk_failed',
  'disk_full',
  'filemap_locked',
  'overloaded',
]);

export class Acceptance {
  readonly #parts: AcceptanceParts;
  readonly #inTurn = serial();
  #full: RoomStats['full'];
  /** Free space at the last check of the disk, and the bytes used here at that time. */
  #seenFreeBytes: number;
  #seenUsedBytes: number;
  /** Why an upload could not be written, until a trial works. */
  #failure: StoreError | undefined;

  constructor(parts: AcceptanceParts) {
    this.#parts = parts;
    this.#seenFreeBytes = parts.freeBytes;
    this.#seenUsedBytes = this.usedBytes;
  }

  get usedBytes(): number {
    const { container, spool, unfinished } = this.#parts;
    return container.bytes + spool.bytes + unfinished.bytes;
  }

  /** Free bytes at the last check, adjusted by what this container used or freed since. */
  get #freeBytes(): number {
    return this.#seenFreeBytes - (this.usedBytes - this.#seenUsedBytes);
  }

  /** The container, or its disk, is nearly full. */
  get isShort(): boolean {
    const { containerBytes, minFreeBytes } = this.#parts;
    if (this.usedBytes > containerBytes * SHORT_SHARE) return true;
    return this.#freeBytes < minFreeBytes * COMFORT_FACTOR;
  }

  /**
   * Stages all of the files or none. Resolves once they are durable; with `sync` false, once they
   * are in the page cache: they are lost if the machine stops soon after. False if a second copy is
   * wanted and the partner may not have them.
   */
  async stage(files: readonly NewFile[], sync = true): Promise<boolean> {
    const { container, merging } = this.#parts;
    let bytes = RECORD_ROOM_BYTES * files.length;
    for (const { body, size } of files) if (body) bytes += size;
    if (this.#shortage(bytes) > 0) await this.makeRoom(bytes);
    else this.#full = undefined;
    const isCopied = await container.append(files.map(fileRecord), sync && this.#parts.sync);
    for (const file of files) merging.noteStaged(file.size, file.body === undefined);
    return isCopied;
  }

  /** Begins a spool file for a large body. `bytes` is its length as far as known. */
  async beginSpooled(key: Buffer, bytes: number): Promise<SpoolWriter> {
    await this.makeRoom(bytes);
    return this.#parts.spool.begin(key);
  }

  /** As `beginSpooled`, for a large file that returns to the spool. */
  async beginAgain(key: Buffer, bytes: number): Promise<SpoolWriter> {
    await this.makeRoom(bytes);
    return this.#parts.spool.beginAgain(key);
  }

  /** Evicts read copies first. Throws `container_full`, `disk_full`. */
  async makeRoom(bytes: number): Promise<void> {
    if (this.#shortage(bytes) > 0) {
      this.#parts.merging.wake();
      await this.#inTurn(() => this.#trim(this.#shortage(bytes)));
    }
    this.#demand(bytes);
  }

  /** Throws `container_full`, `disk_full` if a body being received uses up the space. */
  checkRoom(): void {
    this.#demand(0);
  }

  /** Why a small file would be refused; undefined if it would be accepted. */
  refusal(): StoreErrorCode | undefined {
    const lack = this.#lack(RECORD_ROOM_BYTES);
    if (lack) return lack === 'disk' ? 'disk_full' : 'container_full';
    return this.#failure?.code;
  }

  /**
   * Notes that an upload failed, and returns its error as a StoreError. If the disk or the FileMap
   * did, uploads count as refused until a trial works: free bytes do not tell of a quota, of inodes
   * or of a broken disk.
   */
  noteFailure(error: unknown): unknown {
    const failure = storeErrorOf(error);
    if (isStoreError(failure) && failure.cause && TROUBLES.has(failure.code)) {
      this.#failure = failure;
    }
    return failure;
  }

  stats(): RoomStats {
    const { containerBytes: limitBytes, minFreeBytes } = this.#parts;
    return {
      usedBytes: this.usedBytes,
      limitBytes,
      resumeBytes: Math.floor(limitBytes * RESUME_SHARE),
      freeBytes: this.#freeBytes,
      minFreeBytes,
      full: this.#failure?.code === 'disk_full' ? 'disk' : this.#full,
    };
  }

  /**
   * Checks the disk and frees space before an upload has to wait for it. Other programs, such as a
   * storage on the same disk, may use space too.
   */
  async lookAtDisk(): Promise<void> {
    await this.#look();
    const nearly = this.#parts.minFreeBytes * COMFORT_FACTOR - this.#freeBytes;
    if (nearly > 0) await this.#inTurn(() => this.#trim(nearly));
    if (!this.#failure) {
      if (nearly <= 0) await this.#parts.container.reserve.keep();
      return;
    }
    try {
      await this.#parts.tryDisk();
      this.#failure = undefined;
    } catch (error) {
      this.noteFailure(error);
      // Free bytes may not show it, but what is merged can go.
      if (isStoreError(this.#failure, 'disk_full'))
        await this.#inTurn(() => this.#trim(TRIAL_BYTES));
    }
  }

  async #look(): Promise<void> {
    // Bytes written meanwhile count twice rather than not at all.
    const used = this.usedBytes;
    this.#seenFreeBytes = await this.#parts.readFreeBytes();
    this.#seenUsedBytes = used;
  }

  /** The previous caller may have freed enough. */
  async #trim(neededBytes: number): Promise<void> {
    if (neededBytes === 0) return;
    await this.#parts.retention.trim(neededBytes);
    await this.#look();
  }

  /** Bytes to free before `bytes` more fit; 0 if they fit. */
  #shortage(bytes: number): number {
    return Math.max(this.#containerShortage(bytes), this.#diskShortage(bytes));
  }

  #containerShortage(bytes: number): number {
    const share = this.#full === 'container' ? RESUME_SHARE : 1;
    return Math.max(0, this.usedBytes + bytes - this.#parts.containerBytes * share);
  }

  #diskShortage(bytes: number): number {
    const factor = this.#full === 'disk' ? RESUME_FREE_FACTOR : 1;
    return Math.max(0, this.#parts.minFreeBytes * factor + bytes - this.#freeBytes);
  }

  #lack(bytes: number): RoomStats['full'] {
    if (this.#containerShortage(bytes) > 0) return 'container';
    return this.#diskShortage(bytes) > 0 ? 'disk' : undefined;
  }

  #demand(bytes: number): void {
    this.#full = this.#lack(bytes);
    const { containerBytes, minFreeBytes } = this.#parts;
    if (this.#full === 'container') {
      const message = `the container holds ${this.usedBytes} of ${containerBytes} bytes; it empties as files are stored in FastDFS: check that FastDFS is reachable, or raise containerSize`;
      throw new StoreError('container_full', message, { retryable: true });
    }
    if (this.#full === 'disk') {
      const message = `the container's disk has ${this.#freeBytes} bytes free, ${minFreeBytes} must stay so; make room on it`;
      throw new StoreError('disk_full', message, { retryable: true });
    }
  }
}
