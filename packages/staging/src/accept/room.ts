import type { Container } from '../container/container.js';
import type { Spool } from '../container/spool.js';
import type { Unfinished } from '../container/unfinished.js';
import { StoreError } from '../errors.js';

/**
 * The room for files: what is used, what is free, and whether more fits. Uploads are refused before
 * the disk is full, so that deletions and stored trunks can still be recorded. The container's
 * limit and the free space of its disk have two thresholds each: uploads are refused past the first
 * and accepted again past the second, so that acceptance does not flap. Does no I/O.
 */
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
  readonly full: Full;
}

export type Full = 'container' | 'disk' | undefined;

interface RoomUsers {
  readonly container: Container;
  readonly spool: Spool;
  readonly unfinished: Unfinished;
}

/** Merging starts early when this share of the container is taken. */
const SHORT_SHARE = 0.8;
/** Free space, as a multiple of the minimum, below which read copies are evicted. */
const COMFORT_FACTOR = 1.5;
/** Share of the limit below which a full container accepts files again. */
const RESUME_SHARE = 0.95;
/** Free space, as a multiple of the minimum, at which a full disk is used again. */
const RESUME_FREE_FACTOR = 1.25;

export class Room {
  readonly #users: RoomUsers;
  readonly #limitBytes: number;
  readonly #minFreeBytes: number;
  #full: Full;
  /** Free space at the last check of the disk, and the bytes used here at that time. */
  #seenFreeBytes: number;
  #seenUsedBytes: number;

  constructor(users: RoomUsers, limitBytes: number, minFreeBytes: number, freeBytes: number) {
    this.#users = users;
    this.#limitBytes = limitBytes;
    this.#minFreeBytes = minFreeBytes;
    this.#seenFreeBytes = freeBytes;
    this.#seenUsedBytes = this.usedBytes;
  }

  get usedBytes(): number {
    const { container, spool, unfinished } = this.#users;
    return container.bytes + spool.bytes + unfinished.bytes;
  }

  /** Free bytes at the last check, adjusted by what this container used or freed since. */
  get #freeBytes(): number {
    return this.#seenFreeBytes - (this.usedBytes - this.#seenUsedBytes);
  }

  /** The container, or its disk, is nearly full. */
  get isShort(): boolean {
    return this.usedBytes > this.#limitBytes * SHORT_SHARE || this.uncomfortableBytes > 0;
  }

  /** Bytes to free on the disk before an upload has to wait for it; 0 or less if there are enough. */
  get uncomfortableBytes(): number {
    return this.#minFreeBytes * COMFORT_FACTOR - this.#freeBytes;
  }

  /** True if `bytes` more fit. */
  fits(bytes: number): boolean {
    if (this.lack(bytes)) return false;
    this.#full = undefined;
    return true;
  }

  /** Bytes to free before `bytes` more fit; 0 if they fit. */
  shortage(bytes: number): number {
    const used = this.usedBytes;
    return Math.max(0, this.#containerExcess(used, bytes), this.#diskExcess(used, bytes));
  }

  /** What is too full for `bytes` more. */
  lack(bytes: number): Full {
    const used = this.usedBytes;
    if (this.#containerExcess(used, bytes) > 0) return 'container';
    return this.#diskExcess(used, bytes) > 0 ? 'disk' : undefined;
  }

  /** Throws `container_full`, `disk_full`. */
  demand(bytes: number): void {
    this.#full = this.lack(bytes);
    if (this.#full === 'container') {
      const message = `the container holds ${this.usedBytes} of ${this.#limitBytes} bytes; it empties as files are stored in FastDFS: check that FastDFS is reachable, or raise containerSize`;
      throw new StoreError('container_full', message);
    }
    if (this.#full === 'disk') {
      const message = `the container's disk has ${this.#freeBytes} bytes free, ${this.#minFreeBytes} must stay so; make room on it`;
      throw new StoreError('disk_full', message);
    }
  }

  /** Notes the free bytes of the disk; bytes written meanwhile count twice rather than not at all. */
  async look(readFreeBytes: () => Promise<number>): Promise<void> {
    const used = this.usedBytes;
    this.#seenFreeBytes = await readFreeBytes();
    this.#seenUsedBytes = used;
  }

  stats(): RoomStats {
    return {
      usedBytes: this.usedBytes,
      limitBytes: this.#limitBytes,
      resumeBytes: Math.floor(this.#limitBytes * RESUME_SHARE),
      freeBytes: this.#freeBytes,
      minFreeBytes: this.#minFreeBytes,
      full: this.lack(0),
    };
  }

  #containerExcess(used: number, bytes: number): number {
    const share = this.#full === 'container' ? RESUME_SHARE : 1;
    return used + bytes - this.#limitBytes * share;
  }

  #diskExcess(used: number, bytes: number): number {
    const factor = this.#full === 'disk' ? RESUME_FREE_FACTOR : 1;
    return this.#minFreeBytes * factor + bytes - this.#seenFreeBytes + used - this.#seenUsedBytes;
  }
}
