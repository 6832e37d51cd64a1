/**
 * Decides whether to read ahead, from how many of the bytes read ahead were requested before they
 * were evicted. Kept per source (a trunk: it has one application's files) and for all. If the used
 * share is too small, only one chance in `PROBE_EVERY` is taken, so that a change is noticed.
 * Counts are halved now and then to favor the present. Memory is bounded.
 */

export interface ReadAheadOptions {
  /** Least share of the bytes read ahead that must be requested. */
  readonly minUsedShare: number;
  /** Most sources to remember. */
  readonly maxSources: number;
}

export interface ReadAheadStats {
  /** Bytes read ahead, and their fate; the rest is still cached or in flight. */
  readonly readBytes: number;
  readonly usedBytes: number;
  readonly unusedBytes: number;
  /** Chances declined because reading ahead had not paid. */
  readonly declined: number;
}

/** Least bytes for a conclusion. */
const MIN_SAMPLE_BYTES = 1024 * 1024;
/** Counts are halved at this size. */
const MAX_SAMPLE_BYTES = 16 * MIN_SAMPLE_BYTES;
/** One chance in this many is taken although reading ahead has not paid. */
const PROBE_EVERY = 16;

interface Sample {
  usedBytes: number;
  unusedBytes: number;
  declined: number;
}

export class ReadAhead {
  readonly #options: ReadAheadOptions;
  readonly #all: Sample = newSample();
  /** Least recently noted first. */
  readonly #sources = new Map<string, Sample>();
  #readBytes = 0;
  #usedBytes = 0;
  #unusedBytes = 0;
  #declined = 0;

  constructor(options: ReadAheadOptions) {
    this.#options = options;
  }

  /** Whether to take this chance. Call it once per chance. */
  pays(source: string): boolean {
    const own = this.#sources.get(source);
    // A source with enough data of its own is not judged by the others.
    const sample = own && isLarge(own) ? own : this.#all;
    const { usedBytes, unusedBytes } = sample;
    const usedShare = usedBytes / (usedBytes + unusedBytes);
    if (!isLarge(sample) || usedShare >= this.#options.minUsedShare) return true;
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
}

function newSample(): Sample {
  return { usedBytes: 0, unusedBytes: 0, declined: 0 };
}

function isLarge({ usedBytes, unusedBytes }: Sample): boolean {
  return usedBytes + unusedBytes >= MIN_SAMPLE_BYTES;
}
