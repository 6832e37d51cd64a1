import { ProblemError } from '@stevedore/middleware/core';
import { LRUCache } from 'lru-cache';
import type { ApiKey } from './api-keys.js';

/**
 * Quotas of API keys: requests per second (a bucket of one second's worth, at least one) and
 * uploaded bytes per day (UTC). This process counts from its start, in one small object for each
 * active key with a limit. In a deployment with a map, bytes of other servers, and of this one
 * before its start, are added once a second (`share`): together, servers may exceed a quota by what
 * they take within that second.
 */

interface Use {
  tokens: number;
  at: number;
  day: number;
  bytes: number;
  /** Counted by other processes. */
  elsewhere: number;
  /** Reserved for uploads in progress. */
  underWay: number;
}

/** Reports today's usage of keys here to other processes; returns their usage there. */
export type ExchangeUsage = (
  day: number,
  used: readonly KeyBytes[],
) => Promise<readonly KeyBytes[]>;

export interface KeyBytes {
  readonly id: string;
  readonly bytes: number;
}

export interface SetAside {
  readonly bytes: number;
  /** Called once, at the end of the upload. */
  readonly settle: (storedBytes: number) => void;
}

/** Counts the usage of keys; one process of a gateway counts for all. */
export interface CountsUse {
  /** Counts a request. Throws, or rejects with, `rate_limited`. */
  request(key: ApiKey): void | Promise<void>;
  /**
   * Reserves up to `bytes` of what the key has left today, so that concurrent uploads share it.
   * Undefined for a key without a limit. Throws, or rejects with, `quota_exceeded` if nothing is
   * left.
   */
  setAside(key: ApiKey, bytes: number): SetAside | undefined | Promise<SetAside | undefined>;
  /** Bytes uploaded today (UTC) with keys that have a `bytesPerDay`, as far as they are counted. */
  today(): readonly KeyBytes[] | Promise<readonly KeyBytes[]>;
  /** Drops keys that were revoked. */
  prune(isKey: (id: string) => boolean): void;
  /** Counts bytes together with other servers from now on, until it is closed. */
  share?(exchange: ExchangeUsage): void;
  close?(): void;
}

const DAY_MS = 86_400_000;
const SHARE_INTERVAL_MS = 1_000;
const NOTHING = (): void => {};

export class Usage implements CountsUse {
  readonly #now: () => number;
  readonly #uses = new Map<string, Use>();
  #sharing: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(now: () => number) {
    this.#now = now;
  }

  request(key: ApiKey): void {
    const { requestsPerSecond: rate } = key;
    if (rate === undefined) return;
    const now = this.#now();
    const use = this.#of(key, now);
    const burst = Math.max(1, rate);
    use.tokens = Math.min(burst, use.tokens + (Math.max(0, now - use.at) / 1000) * rate);
    use.at = now;
    if (use.tokens < 1) {
      const seconds = Math.max(1, Math.ceil((1 - use.tokens) / rate));
      throw limited('rate_limited', `This key may make ${rate} requests a second.`, seconds);
    }
    use.tokens -= 1;
  }

  setAside(key: ApiKey, bytes: number): SetAside | undefined {
    const { bytesPerDay } = key;
    if (bytesPerDay === undefined) return undefined;
    const now = this.#now();
    const use = this.#today(this.#of(key, now), now);
    const used = use.bytes + use.elsewhere;
    const left = bytesPerDay - used - use.underWay;
    if (left <= 0) {
      const isOver = used >= bytesPerDay;
      const seconds = isOver ? Math.ceil((DAY_MS - (now % DAY_MS)) / 1000) : 1;
      const message = `This key may upload ${bytesPerDay} bytes a day.`;
      throw limited('quota_exceeded', message, seconds);
    }
    const taken = Math.min(bytes, left);
    use.underWay += taken;
    return {
      bytes: taken,
      settle: (storedBytes) => {
        use.underWay -= taken;
        this.#today(use, this.#now()).bytes += storedBytes;
      },
    };
  }

  today(): readonly KeyBytes[] {
    const day = Math.floor(this.#now() / DAY_MS);
    return [...this.#uses]
      .filter(([, use]) => use.day === day)
      .map(([id, { bytes, elsewhere }]) => ({ id, bytes: bytes + elsewhere }));
  }

  share(exchange: ExchangeUsage): void {
    const next = (): void => {
      if (this.#isClosed) return;
      this.#sharing = setTimeout(() => {
        // Without an answer each server counts by itself; problems of the map are reported
        // elsewhere.
        this.#exchange(exchange).catch(NOTHING).then(next, NOTHING);
      }, SHARE_INTERVAL_MS).unref();
    };
    next();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#sharing);
  }

  async #exchange(exchange: ExchangeUsage): Promise<void> {
    const day = Math.floor(this.#now() / DAY_MS);
    const used = [...this.#uses]
      .filter(([, use]) => use.day === day)
      .map(([id, { bytes }]) => ({ id, bytes }));
    if (used.length === 0) return;
    for (const { id, bytes } of await exchange(day, used)) {
      const use = this.#uses.get(id);
      if (use?.day === day) use.elsewhere = bytes;
    }
  }

  prune(isKey: (id: string) => boolean): void {
    for (const id of this.#uses.keys()) if (!isKey(id)) this.#uses.delete(id);
  }

  #of(key: ApiKey, now: number): Use {
    const known = this.#uses.get(key.id);
    if (known) return known;
    const use = {
      tokens: Math.max(1, key.requestsPerSecond ?? 1),
      at: now,
      day: 0,
      bytes: 0,
      elsewhere: 0,
      underWay: 0,
    };
    this.#uses.set(key.id, use);
    return use;
  }

  #today(use: Use, now: number): Use {
    const day = Math.floor(now / DAY_MS);
    if (use.day !== day) {
      use.day = day;
      use.bytes = 0;
      use.elsewhere = 0;
    }
    return use;
  }
}

function limited(
  code: 'rate_limited' | 'quota_exceeded',
  message: string,
  seconds: number,
): ProblemError {
  return new ProblemError(code, message, undefined, { 'retry-after': String(seconds) });
}

/**
 * Used URLs that were valid for one upload, until they expire. The record of the file marks the URL
 * as used while the file exists; this list covers the time after that, in this process alone.
 * Bounded: the oldest are evicted.
 */

const MAX_MARKS = 100_000;

export interface KnowsSpent {
  /** `until`: when the URL expires, in Unix milliseconds. */
  add(mark: Buffer, until: number): void;
  /** Throws, or rejects with, `signature_expired`. */
  demandUnspent(mark: Buffer): void | Promise<void>;
}

export class SpentMarks implements KnowsSpent {
  readonly #now: () => number;
  readonly #until = new LRUCache<string, number>({ max: MAX_MARKS });

  constructor(now: () => number) {
    this.#now = now;
  }

  add(mark: Buffer, until: number): void {
    if (until > this.#now()) this.#until.set(mark.toString('base64url'), until);
  }

  demandUnspent(mark: Buffer): void {
    if (this.has(mark)) throw spent();
  }

  has(mark: Buffer): boolean {
    return this.#until.has(mark.toString('base64url'));
  }
}

export function spent(): ProblemError {
  const message = 'This URL was good for one file, which was uploaded and is gone.';
  return new ProblemError('signature_expired', message);
}
