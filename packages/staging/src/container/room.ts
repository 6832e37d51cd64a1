import { StoreError } from '../errors.js';

/**
 * Whether there is room for more. Two marks each for the container's own limit and
 * for what is free on its disk: past the first mark uploads are refused, and only
 * when the second is reached are they taken again, so that acceptance does not
 * flutter. Refusing comes before the disk is full: records of deletions and of
 * stored trunks still find room.
 */
export interface RoomOptions {
  readonly limitBytes: number;
  /** Bytes that must stay free on the disk. */
  readonly minFreeBytes: number;
  readonly usedBytes: () => number;
  /** Free bytes of the disk, as of a moment ago. */
  readonly freeBytes: () => number;
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

/** Share of the limit below which a container that was full takes files again. */
const RESUME_SHARE = 0.95;
/** Free room, as a multiple of the minimum, at which a disk that was full is used again. */
const RESUME_FREE_FACTOR = 1.25;

export class Room {
  readonly #options: RoomOptions;
  #full: 'container' | 'disk' | undefined;

  constructor(options: RoomOptions) {
    this.#options = options;
  }

  /** Bytes that have to go before `bytes` more fit; 0 when they do. */
  shortage(bytes: number): number {
    return Math.max(this.#excess(bytes), this.#diskShortage(bytes));
  }

  /** Over the container's own limit. */
  #excess(bytes: number): number {
    const { usedBytes, limitBytes } = this.#options;
    const limit = this.#full === 'container' ? limitBytes * RESUME_SHARE : limitBytes;
    return Math.max(0, usedBytes() + bytes - limit);
  }

  #diskShortage(bytes: number): number {
    const { minFreeBytes, freeBytes } = this.#options;
    const minimum = this.#full === 'disk' ? minFreeBytes * RESUME_FREE_FACTOR : minFreeBytes;
    return Math.max(0, minimum + bytes - freeBytes());
  }

  stats(): RoomStats {
    const { limitBytes, minFreeBytes, usedBytes, freeBytes } = this.#options;
    return {
      usedBytes: usedBytes(),
      limitBytes,
      resumeBytes: Math.floor(limitBytes * RESUME_SHARE),
      freeBytes: freeBytes(),
      minFreeBytes,
      full: this.#full,
    };
  }

  has(bytes: number): boolean {
    return this.#check(bytes) === undefined;
  }

  /** Throws `container_full`, `disk_full`. */
  demand(bytes: number): void {
    this.#full = this.#check(bytes);
    if (this.#full) throw this.#error(this.#full);
  }

  #check(bytes: number): 'container' | 'disk' | undefined {
    if (this.#excess(bytes) > 0) return 'container';
    return this.#diskShortage(bytes) > 0 ? 'disk' : undefined;
  }

  #error(full: 'container' | 'disk'): StoreError {
    const { usedBytes, limitBytes, freeBytes, minFreeBytes } = this.#options;
    if (full === 'container') {
      const message = `the container holds ${usedBytes()} of ${limitBytes} bytes; it empties as files are stored in FastDFS: check that FastDFS is reachable, or raise containerSize`;
      return new StoreError('container_full', message, { retryable: true });
    }
    const message = `the container's disk has ${freeBytes()} bytes free, ${minFreeBytes} must stay so; make room on it`;
    return new StoreError('disk_full', message, { retryable: true });
  }
}
