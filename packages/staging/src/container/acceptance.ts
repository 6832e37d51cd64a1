import { serial } from '@stevedore/async';
import { StoreError } from '../errors.js';
import type { MergeTask } from '../merge/merge-task.js';
import type { Retention } from '../upkeep/retention.js';
import type { Container } from './container.js';
import { fileRecord, type NewFile } from './records.js';
import type { Spool, SpoolWriter } from './spool.js';
import type { Unfinished } from './unfinished.js';

/**
 * Accepts new files: makes room for each before a byte of it is written, and refuses it if there
 * is none. Uploads are refused before the disk is full, so that deletions and stored trunks can
 * still be recorded. The container's limit and the free space of its disk have two marks each:
 * past the first uploads are refused, past the second they are accepted again, so that acceptance
 * does not flutter.
 */
export interface AcceptanceParts {
  readonly container: Container;
  readonly spool: Spool;
  readonly unfinished: Unfinished;
  readonly retention: Retention;
  readonly merging: MergeTask;
  /** Acknowledge once a file is durable; false: once the system has it. */
  readonly sync: boolean;
  /** At this many bytes uploads are refused. */
  readonly containerBytes: number;
  /** Bytes that must stay free on the disk. */
  readonly minFreeBytes: number;
  /** Of the disk, at the start. */
  readonly freeBytes: number;
  readonly readFreeBytes: () => Promise<number>;
}

export interface RoomStats {
  readonly usedBytes: number;
  /** At this many uploads are refused ... */
  readonly limitBytes: number;
  /** ... and below this many taken again. */
  readonly resumeBytes: number;
  /** Of the disk, as of a moment ago. */
  readonly freeBytes: number;
  readonly minFreeBytes: number;
  /** What uploads are refused for at the moment. */
  readonly full: 'container' | 'disk' | undefined;
}

/** Room that a new segment's header and small records may need beyond a file's bytes. */
const RECORD_ROOM_BYTES = 4096;
/** Merging starts early when this share of the container is taken. */
const SHORT_SHARE = 0.8;
/** Free room, as a multiple of the least, below which read copies begin to go. */
const COMFORT_FACTOR = 1.5;
/** Share of the limit below which a container that was full takes files again. */
const RESUME_SHARE = 0.95;
/** Free room, as a multiple of the least, at which a disk that was full is used again. */
const RESUME_FREE_FACTOR = 1.25;

export class Acceptance {
  readonly #parts: AcceptanceParts;
  readonly #inTurn = serial();
  #full: RoomStats['full'];
  /** Free on the disk when it was last looked at, and what was used here then. */
  #seenFreeBytes: number;
  #seenUsedBytes: number;

  constructor(parts: AcceptanceParts) {
    this.#parts = parts;
    this.#seenFreeBytes = parts.freeBytes;
    this.#seenUsedBytes = this.usedBytes;
  }

  get usedBytes(): number {
    const { container, spool, unfinished } = this.#parts;
    return container.bytes + spool.bytes + unfinished.bytes;
  }

  /** As of the last look, and what has come and gone here since. */
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
   * Resolves once all of the files are durable; all of them or none. With `sync` false
   * they are durable soon after, and lost if the machine stops before.
   */
  async stage(files: readonly NewFile[], sync = true): Promise<void> {
    const { container, merging } = this.#parts;
    let bytes = RECORD_ROOM_BYTES * files.length;
    for (const { body, size } of files) if (body) bytes += size;
    if (this.#shortage(bytes) > 0) await this.makeRoom(bytes);
    else this.#full = undefined;
    await container.append(files.map(fileRecord), sync && this.#parts.sync, true);
    for (const file of files) merging.noteStaged(file.size, file.body === undefined);
  }

  /** Begins a file of its own for a large body; `bytes` is what is known of its length. */
  async beginSpooled(key: Buffer, bytes: number): Promise<SpoolWriter> {
    await this.makeRoom(bytes);
    return this.#parts.spool.begin(key);
  }

  /** The same for a large file that was here before. */
  async beginAgain(key: Buffer, bytes: number): Promise<SpoolWriter> {
    await this.makeRoom(bytes);
    return this.#parts.spool.beginAgain(key);
  }

  /** Read copies go first. Throws `container_full`, `disk_full`. */
  async makeRoom(bytes: number): Promise<void> {
    if (this.#shortage(bytes) > 0) {
      this.#parts.merging.wake();
      await this.#inTurn(() => this.#trim(this.#shortage(bytes)));
    }
    this.#demand(bytes);
  }

  /** Throws `container_full`, `disk_full` if a body that is being spooled takes the last room. */
  checkRoom(): void {
    this.#demand(0);
  }

  /**
   * The same for an upload in several requests, which may never be finished: together those have
   * half of the container.
   */
  checkUnfinishedRoom(): void {
    const { unfinished, containerBytes } = this.#parts;
    if (unfinished.bytes > containerBytes / 2) {
      const message = `unfinished uploads hold ${unfinished.bytes} bytes, half of the container; finish or remove some, or wait until they are too old`;
      throw new StoreError('container_full', message, { retryable: true });
    }
    this.#demand(0);
  }

  /** True while a small file would be taken. */
  hasRoom(): boolean {
    return this.#lack(RECORD_ROOM_BYTES) === undefined;
  }

  stats(): RoomStats {
    const { containerBytes: limitBytes, minFreeBytes } = this.#parts;
    return {
      usedBytes: this.usedBytes,
      limitBytes,
      resumeBytes: Math.floor(limitBytes * RESUME_SHARE),
      freeBytes: this.#freeBytes,
      minFreeBytes,
      full: this.#full,
    };
  }

  /**
   * Looks at the disk, and frees space before an upload has to wait for it: other programs, such
   * as a storage on the same disk, may need it first.
   */
  async lookAtDisk(): Promise<void> {
    await this.#look();
    const nearly = this.#parts.minFreeBytes * COMFORT_FACTOR - this.#freeBytes;
    if (nearly > 0) await this.#inTurn(() => this.#trim(nearly));
  }

  async #look(): Promise<void> {
    // What is written meanwhile counts twice rather than not at all.
    const used = this.usedBytes;
    this.#seenFreeBytes = await this.#parts.readFreeBytes();
    this.#seenUsedBytes = used;
  }

  /** The one before in turn may have freed enough. */
  async #trim(neededBytes: number): Promise<void> {
    if (neededBytes === 0) return;
    await this.#parts.retention.trim(neededBytes);
    await this.#look();
  }

  /** Bytes that have to go before `bytes` more fit; 0 when they do. */
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
