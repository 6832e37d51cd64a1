import { ProblemError } from '@stevedore/middleware/core';

/** Answers that would be the same for the next request, so that it costs no encoder. */

interface RefusedLimits {
  readonly maxEntries: number;
  /** A picture may have been refused because the machine was busy. */
  readonly maxAgeMs: number;
}

interface Refusal extends Pick<ProblemError, 'code' | 'message'> {
  readonly until: number;
}

const LASTING: ReadonlySet<string> = new Set([
  'picture_unsupported',
  'picture_broken',
  'picture_too_costly',
]);

export class RefusedPictures {
  readonly #limits: RefusedLimits;
  readonly #now: () => number;
  /** By the names of variants, the oldest first. */
  readonly #known = new Map<string, Refusal>();

  constructor(limits: RefusedLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
  }

  /** Remembers an error that is a refusal of the picture itself. */
  add(name: string, error: unknown): void {
    if (!(error instanceof ProblemError) || !LASTING.has(error.code)) return;
    this.#known.delete(name);
    const { code, message } = error;
    this.#known.set(name, { code, message, until: this.#now() + this.#limits.maxAgeMs });
    if (this.#known.size <= this.#limits.maxEntries) return;
    const [oldest = name] = this.#known.keys();
    this.#known.delete(oldest);
  }

  /** Throws what is remembered of a picture. */
  demandNone(name: string): void {
    const found = this.#known.get(name);
    if (!found) return;
    if (this.#now() < found.until) throw new ProblemError(found.code, found.message);
    this.#known.delete(name);
  }
}
