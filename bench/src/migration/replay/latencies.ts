/**
 * Times of many requests in little memory: buckets of a twentieth of a doubling, so a
 * percentile is right within four percent.
 */
export class Latencies {
  readonly #buckets = new Map<number, number>();
  #count = 0;
  #sumMs = 0;

  add(ms: number): void {
    const bucket = Math.ceil(Math.log2(Math.max(ms, LEAST_MS)) * PER_DOUBLING);
    this.#buckets.set(bucket, (this.#buckets.get(bucket) ?? 0) + 1);
    this.#count += 1;
    this.#sumMs += ms;
  }

  get count(): number {
    return this.#count;
  }

  get meanMs(): number {
    return this.#count === 0 ? 0 : this.#sumMs / this.#count;
  }

  /** The time that `share` of all stayed within; 0 if there were none. */
  percentileMs(share: number): number {
    let left = Math.ceil(this.#count * share);
    for (const [bucket, count] of [...this.#buckets].sort(([a], [b]) => a - b)) {
      left -= count;
      if (left <= 0) return 2 ** (bucket / PER_DOUBLING);
    }
    return 0;
  }
}

const PER_DOUBLING = 20;
const LEAST_MS = 0.001;
