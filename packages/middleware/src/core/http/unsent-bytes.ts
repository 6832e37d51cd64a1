import assert from 'node:assert';
import type { ServerResponse } from 'node:http';
import { whenClosed } from './when-closed.js';

/**
 * Memory for bytes that were read and not yet accepted by clients, for all downloads. Reads wait
 * for free memory. When memory is short, downloads that wait for their clients keep no more than
 * their share and read the rest again later. If that is not enough, the downloads that have been
 * stalled longest are closed; a client can continue with a range.
 */

export interface UnsentLimits {
  /** Of all downloads together. */
  readonly maxUnsentBytes: number;
  /** A client that accepts nothing for this long is disconnected. */
  readonly downloadStallMs: number;
  /** Most stalled clients to keep: a connection alone takes about 14 KiB. */
  readonly maxStalled: number;
}

/** A download that waits for its client. */
export interface Stalled {
  /** Keeps no more than `bytes` of what can be read again; returns the bytes still held. */
  trim(bytes: number): number;
  end(): void;
}

export interface UnsentStats {
  /** Bytes that were read, or are being read, and that clients have not accepted. */
  readonly bytes: number;
  /** Downloads that wait for their clients. */
  readonly stalled: number;
  /**
   * Downloads ended because others needed the memory, and because their client accepted nothing.
   */
  readonly endedForRoom: number;
  readonly endedForStall: number;
}

/** Most bytes that one read reserves, however long the file is. */
const READ_SHARE = 1 / 4;
/** Extra allowance for short content, which does not queue behind long files. */
const SHORT_SHARE = 1 / 8;
const SHORT_BYTES = 128 * 2 ** 10;
/** Share of the memory that stalled downloads may keep, beside the system's own buffers. */
const STALLED_SHARE = 1 / 2;
const MIN_SHARE_BYTES = 32 * 2 ** 10;
/** A download is stalled, and not just between two pieces, after this long ... */
const TRIM_AFTER_MS = 50;
/**
 * ... and is closed after this long, if others need the memory or more than `maxStalled` are
 * stalled.
 */
const END_AFTER_MS = 5_000;
const SWEEP_MS = 1000;

/** Bytes held by one download; none again once it is released, whatever was still under way. */
export class Hold {
  readonly #unsent: UnsentBytes;
  bytes = 0;
  isReleased = false;
  /** When it began to wait for its client, by the monotonic clock. */
  stalledAt = 0;
  stalled: Stalled | undefined;

  constructor(unsent: UnsentBytes) {
    this.#unsent = unsent;
  }

  /** The client has accepted what was written. */
  moved(): void {
    this.#unsent.move(this);
  }

  /** Sets the bytes it holds while it waits for its client. */
  wait(bytes: number, stalled: Stalled): void {
    this.#unsent.wait(this, bytes, stalled);
  }

  release(): void {
    this.isReleased = true;
    this.#unsent.move(this);
    this.#unsent.resize(this, 0);
  }
}

interface Waiter {
  readonly hold: Hold;
  readonly bytes: number;
  readonly isGone: () => boolean;
  readonly resolve: () => void;
}

export class UnsentBytes {
  readonly #limits: UnsentLimits;
  readonly #now: () => number;
  #bytes = 0;
  /** The longest stalled first. */
  readonly #stalled = new Set<Hold>();
  /** The stalled downloads that were not trimmed yet. */
  readonly #untrimmed = new Set<Hold>();
  readonly #queue: Waiter[] = [];
  #endedForRoom = 0;
  #endedForStall = 0;
  #retry: NodeJS.Timeout | undefined;
  #sweep: NodeJS.Timeout | undefined;

  constructor(limits: UnsentLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  stats(): UnsentStats {
    return {
      bytes: this.#bytes,
      stalled: this.#stalled.size,
      endedForRoom: this.#endedForRoom,
      endedForStall: this.#endedForStall,
    };
  }

  /** What a stalled download may keep when memory is short. */
  get shareBytes(): number {
    const share = (this.#limits.maxUnsentBytes * STALLED_SHARE) / (this.#stalled.size + 1);
    return Math.max(MIN_SHARE_BYTES, Math.floor(share));
  }

  /** True if a short read need not reserve memory: there is some, and no other read waits for it. */
  get hasRoom(): boolean {
    return this.#queue.length === 0 && this.#bytes < this.#limits.maxUnsentBytes;
  }

  hold(): Hold {
    return new Hold(this);
  }

  /** Counts an answer that was sent in one piece, if the system has not taken all of it. */
  watch(response: ServerResponse, bytes: number): void {
    // What stands in for a socket may not count them.
    if (!(response.writableLength > 0)) return;
    const hold = this.hold();
    hold.wait(bytes, { trim: () => bytes, end: () => void response.destroy() });
    whenClosed(response, () => hold.release());
  }

  /**
   * Reserves `wanted` bytes for the hold; returns a promise only if it has to wait. If the client
   * is gone, the wait ends without bytes. A released hold gets none, and takes none from others.
   */
  reserve(hold: Hold, wanted: number, isGone: () => boolean): Promise<void> | undefined {
    if (hold.isReleased) return undefined;
    const bytes = Math.min(wanted, this.#limits.maxUnsentBytes * READ_SHARE);
    const isShort = bytes <= SHORT_BYTES;
    if ((isShort || this.#queue.length === 0) && this.#hasRoom(hold, bytes, isShort)) {
      this.resize(hold, bytes);
      return undefined;
    }
    return new Promise((resolve) => {
      this.#queue.push({ hold, bytes, isGone, resolve });
      this.#serve();
    });
  }

  /** Ends the download that has waited longest for its client; false if none waits. */
  endLongestStalled(): boolean {
    const [hold] = this.#stalled;
    if (!hold) return false;
    this.#endedForRoom += 1;
    this.#end(hold);
    return true;
  }

  move(hold: Hold): void {
    hold.stalled = undefined;
    this.#stalled.delete(hold);
    this.#untrimmed.delete(hold);
  }

  wait(hold: Hold, bytes: number, stalled: Stalled): void {
    if (hold.isReleased) return;
    hold.stalled = stalled;
    hold.stalledAt = this.#now();
    this.#stalled.add(hold);
    this.#untrimmed.add(hold);
    this.#sweep ??= setInterval(() => this.#endStalled(), SWEEP_MS).unref();
    this.resize(hold, bytes);
    this.#hasRoom(hold, hold.bytes);
  }

  resize(hold: Hold, bytes: number): void {
    const freed = hold.bytes - bytes;
    this.#set(hold, bytes);
    if (freed > 0 && this.#queue.length > 0) this.#serve();
  }

  close(): void {
    clearInterval(this.#sweep);
    clearTimeout(this.#retry);
    this.#sweep = undefined;
  }

  #serve(): void {
    for (let first = this.#queue[0]; first; first = this.#queue[0]) {
      const isGone = first.isGone();
      if (!isGone && !this.#hasRoom(first.hold, first.bytes)) break;
      this.#queue.shift();
      if (!isGone) this.resize(first.hold, first.bytes);
      first.resolve();
    }
    if (this.#queue.length === 0) return;
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#forgetGone();
      this.#serve();
    }, TRIM_AFTER_MS).unref();
  }

  /** A waiting request keeps its connection in memory, with every request that arrived on it. */
  #forgetGone(): void {
    for (const gone of this.#queue.filter(({ isGone }) => isGone())) {
      this.#queue.splice(this.#queue.indexOf(gone), 1);
      gone.resolve();
    }
  }

  /** Frees memory if necessary. */
  #hasRoom(asking: Hold, bytes: number, isShort = false): boolean {
    const { maxUnsentBytes } = this.#limits;
    const limit = isShort ? maxUnsentBytes * (1 + SHORT_SHARE) : maxUnsentBytes;
    const fits = (): boolean => {
      const others = this.#bytes - asking.bytes;
      return others + bytes <= limit;
    };
    if (fits()) return true;
    const now = this.#now();
    for (const hold of this.#untrimmed) {
      if (hold.stalledAt > now - TRIM_AFTER_MS) break;
      this.#untrimmed.delete(hold);
      const left = hold.stalled?.trim(this.shareBytes) ?? 0;
      this.#set(hold, left);
      if (fits()) return true;
    }
    for (const hold of this.#stalled) {
      if (hold.stalledAt > now - END_AFTER_MS) break;
      this.#endedForRoom += 1;
      this.#end(hold);
      if (fits()) return true;
    }
    return fits();
  }

  #endStalled(): void {
    const { downloadStallMs, maxStalled } = this.#limits;
    const now = this.#now();
    for (const hold of this.#stalled) {
      const stalledMs = now - hold.stalledAt;
      if (stalledMs >= downloadStallMs) this.#endedForStall += 1;
      else if (stalledMs >= END_AFTER_MS && this.#stalled.size > maxStalled)
        this.#endedForRoom += 1;
      else break;
      this.#end(hold);
    }
    if (this.#stalled.size > 0) return;
    clearInterval(this.#sweep);
    this.#sweep = undefined;
  }

  #end(hold: Hold): void {
    const { stalled } = hold;
    this.move(hold);
    this.#set(hold, 0);
    stalled?.end();
  }

  #set(hold: Hold, asked: number): void {
    const bytes = hold.isReleased ? 0 : asked;
    this.#bytes += bytes - hold.bytes;
    hold.bytes = bytes;
    assert(bytes >= 0 && this.#bytes >= 0);
  }
}
