import { ProblemError } from '@stevedore/middleware/core';
import type { ApiKey } from './api-keys.js';

/**
 * Quotas of API keys: requests per second (a bucket that holds a second's worth, or one)
 * and uploaded bytes per day of UTC. Counted by this process, from
 * its start on; one small object for each key with a limit that is in use.
 */

interface Use {
  tokens: number;
  at: number;
  day: number;
  bytes: number;
  /** Set aside for uploads that have not ended. */
  underWay: number;
}

export interface SetAside {
  readonly bytes: number;
  /** Called once, at the end of the upload. */
  readonly settle: (storedBytes: number) => void;
}

/** Counts what keys use; of several processes of one gateway, one counts for all. */
export interface CountsUse {
  /** Counts a request. Throws, or rejects with, `rate_limited`. */
  request(key: ApiKey): void | Promise<void>;
  /**
   * Sets aside what an upload of at most `bytes` may take of what the key has left today,
   * so that uploads at the same time share it. Undefined for a key without a bound. Throws,
   * or rejects with, `quota_exceeded` when nothing is left.
   */
  setAside(key: ApiKey, bytes: number): SetAside | undefined | Promise<SetAside | undefined>;
  /** Forgets keys that were revoked. */
  prune(isKey: (id: string) => boolean): void;
}

const DAY_MS = 86_400_000;

export class Usage implements CountsUse {
  readonly #now: () => number;
  readonly #uses = new Map<string, Use>();

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
    const left = bytesPerDay - use.bytes - use.underWay;
    if (left <= 0) {
      const isOver = use.bytes >= bytesPerDay;
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
