/**
 * Whether reading ahead pays, learned from what became of the bytes that were read
 * ahead: asked for, or gone unasked. Kept per source (a trunk: one application's files
 * are together there) and for all; where the share that was asked for is too small,
 * only one chance in so many is taken, so that a change is noticed. Counts are halved
 * now and then: the present weighs more. Pure but for its memory, which is bounded.
 */

export interface ReadAheadOptions {
  /** Share of the bytes read ahead that must be asked for. */
  readonly minUsedShare: number;
  /** Sources that are remembered. */
  readonly maxSources: number;
}

export interface ReadAheadStats {
  /** Bytes read ahead, and what became of them; the rest is still kept or on its way. */
  readonly readBytes: number;
  readonly usedBytes: number;
  readonly unusedBytes: number;
  /** Times that it was left because it had not paid. */
  readonly declined: number;
}

/** Nothing is concluded from fewer bytes. */
const MIN_SAMPLE_BYTES = 1024 * 1024;
/** Counts are halved at so many. */
const MAX_SAMPLE_BYTES = 16 * MIN_SAMPLE_BYTES;
/** Of so many chances one is taken all the same. */
const PROBE_EVERY = 16;

interface Sample {
  usedBytes: number;
  unusedBytes: number;
  declined: number;
}

export class ReadAhead {
  readonly #options: ReadAheadOptions;
  readonly #all: Sample = newSample();
  /** Last used last. */
  readonly #sources = new Map<string, Sample>();
  #readBytes = 0;
  #usedBytes = 0;
  #unusedBytes = 0;
  #declined = 0;

  constructor(options: ReadAheadOptions) {
    this.#options = options;
  }

  /** Ask once for every chance. */
  pays(source: string): boolean {
    const own = this.#sources.get(source);
    // A source with a record of its own is not judged by the others'.
    const sample = own && isLarge(own) ? own : this.#all;
    if (!isLarge(sample) || this.#usedShare(sample) >= this.#options.minUsedShare) return true;
    sample.declined += 1;
    if (sample.declined % PROBE_EVERY === 0) return true;
    this.#declined += 1;
    return false;
  }

  noteRead(bytes: number): void {
    this.#readBytes += bytes;
  }

  noteUsed(source: string, bytes: number): void {
    this.#usedBytes += bytes;
    this.#note(source, 'usedBytes', bytes);
  }

  noteUnused(source: string, bytes: number): void {
    this.#unusedBytes += bytes;
    this.#note(source, 'unusedBytes', bytes);
  }

  stats(): ReadAheadStats {
    return {
      readBytes: this.#readBytes,
      usedBytes: this.#usedBytes,
      unusedBytes: this.#unusedBytes,
      declined: this.#declined,
    };
  }

  #note(source: string, what: 'usedBytes' | 'unusedBytes', bytes: number): void {
    const own = this.#sources.get(source) ?? newSample();
    this.#sources.delete(source);
    this.#sources.set(source, own);
    if (this.#sources.size > this.#options.maxSources) {
      for (const oldest of this.#sources.keys()) {
        this.#sources.delete(oldest);
        break;
      }
    }
    for (const sample of [own, this.#all]) {
      sample[what] += bytes;
      if (sample.usedBytes + sample.unusedBytes < MAX_SAMPLE_BYTES) continue;
      sample.usedBytes /= 2;
      sample.unusedBytes /= 2;
    }
  }

  #usedShare({ usedBytes, unusedBytes }: Sample): number {
    return usedBytes / (usedBytes + unusedBytes);
  }
}

function newSample(): Sample {
  return { usedBytes: 0, unusedBytes: 0, declined: 0 };
}

function isLarge({ usedBytes, unusedBytes }: Sample): boolean {
  return usedBytes + unusedBytes >= MIN_SAMPLE_BYTES;
}
