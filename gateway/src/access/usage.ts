import { ProblemError } from '@stevedore/middleware/core';
import type { ApiKey } from './api-key.js';

/**
 * What each API key takes: requests per second (a bucket that holds a second's
 * worth, or one) and uploaded bytes per day of UTC. Counted by this process, from
 * its start on; one small object for each key with a limit that is in use.
 */

interface Use {
  tokens: number;
  at: number;
  day: number;
  bytes: number;
}

const DAY_MS = 86_400_000;

export class Usage {
  readonly #now: () => number;
  readonly #uses = new Map<string, Use>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Counts a request. Throws `rate_limited`. */
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
      throw limited('rate_limited', `This key may do ${rate} requests in a second.`, seconds);
    }
    use.tokens -= 1;
  }

  /** Bytes that the key may still upload today. Throws `quota_exceeded` when there are none. */
  remainingBytes(key: ApiKey): number {
    const { bytesPerDay } = key;
    if (bytesPerDay === undefined) return Number.POSITIVE_INFINITY;
    const now = this.#now();
    const left = bytesPerDay - this.#today(this.#of(key, now), now).bytes;
    if (left > 0) return left;
    const seconds = Math.ceil((DAY_MS - (now % DAY_MS)) / 1000);
    throw limited('quota_exceeded', `This key may upload ${bytesPerDay} bytes in a day.`, seconds);
  }

  /** Counts bytes; negative ones were counted and did not come. */
  upload(key: ApiKey, bytes: number): void {
    if (key.bytesPerDay === undefined) return;
    const now = this.#now();
    this.#today(this.#of(key, now), now).bytes += bytes;
  }

  /** Forgets keys that are no more. */
  prune(isKey: (id: string) => boolean): void {
    for (const id of this.#uses.keys()) if (!isKey(id)) this.#uses.delete(id);
  }

  #of(key: ApiKey, now: number): Use {
    const known = this.#uses.get(key.id);
    if (known) return known;
    const use = { tokens: Math.max(1, key.requestsPerSecond ?? 1), at: now, day: 0, bytes: 0 };
    this.#uses.set(key.id, use);
    return use;
  }

  #today(use: Use, now: number): Use {
    const day = Math.floor(now / DAY_MS);
    if (use.day !== day) {
      use.day = day;
      use.bytes = 0;
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
