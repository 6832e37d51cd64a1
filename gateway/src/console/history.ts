import type { TierLoad } from './migrations.js';

/**
 * The history of a gateway's figures: a point for each 10 seconds of the last hour, and for each
 * minute of the last day. Pure: readings and the time are passed in. Its memory is bounded.
 */

/** Totals since some start, and figures of the moment. A total that falls has begun again. */
export interface Reading {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly uploads: number;
  readonly downloads: number;
  readonly cacheHits: number;
  readonly cacheMisses: number;
  /** Trunks stored, and the sum of their fill. */
  readonly trunks: number;
  readonly fill: number;
  readonly stagedBytes: number;
  readonly load: TierLoad | undefined;
}

export const SPANS = ['hour', 'day'] as const;
export type Span = (typeof SPANS)[number];

type Values = readonly (number | null)[];

/** The same number of values in each list; null where nothing is known. */
export interface HistoryTable {
  readonly stepMs: number;
  /** Seconds since 1970, at which each step begins. */
  readonly at: readonly number[];
  readonly uploadsPerSecond: Values;
  readonly downloadsPerSecond: Values;
  readonly stagedBytes: Values;
  readonly trunksPerMinute: Values;
  /** Mean fill of the trunks of the step. */
  readonly fill: Values;
  /** Share of look-ups in the cache that found the file. */
  readonly cacheHits: Values;
  /** Of the storage with the highest forecast; as `TierLoad`. */
  readonly load: Values;
  readonly forecast: Values;
}

const HOUR_MS = 3_600_000;
const STEPS_MS = { hour: 10_000, day: 60_000 } as const;
const LENGTHS = { hour: HOUR_MS / STEPS_MS.hour, day: (24 * HOUR_MS) / STEPS_MS.day } as const;

const NO_TOTALS = {
  uploads: 0,
  downloads: 0,
  cacheHits: 0,
  cacheMisses: 0,
  trunks: 0,
  fill: 0,
};
const TOTALS = Object.keys(NO_TOTALS) as (keyof typeof NO_TOTALS)[];

/** What happened in one step; `number` is that of the step since 1970. */
type Step = typeof NO_TOTALS &
  Pick<Reading, 'stagedBytes' | 'load'> & { readonly number: number; seconds: number };

export class History {
  readonly #rings = { hour: new Ring('hour'), day: new Ring('day') };
  #last: Reading | undefined;

  /** Call it every few seconds. A reading that is not later than the last one is left out. */
  add(reading: Reading): void {
    const last = this.#last;
    if (last && reading.at <= last.at) {
      // The clock was set back: steps continue from its new time.
      if (last.at - reading.at > STEPS_MS.day) this.#last = reading;
      return;
    }
    this.#last = reading;
    for (const span of SPANS) this.#rings[span].add(reading, last);
  }

  table(span: Span): HistoryTable {
    return this.#rings[span].table();
  }
}

class Ring {
  readonly #stepMs: number;
  readonly #length: number;
  readonly #steps: Step[] = [];

  constructor(span: Span) {
    this.#stepMs = STEPS_MS[span];
    this.#length = LENGTHS[span];
  }

  add(reading: Reading, last: Reading | undefined): void {
    const number = Math.floor(reading.at / this.#stepMs);
    const steps = this.#steps;
    while ((steps[0]?.number ?? number) <= number - this.#length) steps.shift();
    while ((steps.at(-1)?.number ?? number) > number) steps.pop();
    const { stagedBytes, load } = reading;
    const known = steps.at(-1)?.number === number ? steps.pop() : undefined;
    const step = { ...NO_TOTALS, seconds: 0, ...known, number, stagedBytes, load };
    steps.push(step);
    if (!last) return;
    step.seconds += (reading.at - last.at) / 1000;
    for (const name of TOTALS) step[name] += Math.max(0, reading[name] - last[name]);
  }

  table(): HistoryTable {
    const steps = this.#steps.flatMap((step, index) => {
      const before = this.#steps[index - 1];
      const isAfterGap = before !== undefined && before.number < step.number - 1;
      return isAfterGap ? [step.number - 1, step] : [step];
    });
    const values = (of: (step: Step) => number | undefined): Values =>
      steps.map((step) => {
        const value = typeof step === 'number' ? undefined : of(step);
        return value === undefined ? null : Math.round(value * 1000) / 1000;
      });
    const share = (part: number, whole: number) => (whole === 0 ? undefined : part / whole);
    return {
      stepMs: this.#stepMs,
      at: steps.map((step) => {
        const number = typeof step === 'number' ? step : step.number;
        return (number * this.#stepMs) / 1000;
      }),
      uploadsPerSecond: values(({ uploads, seconds }) => share(uploads, seconds)),
      downloadsPerSecond: values(({ downloads, seconds }) => share(downloads, seconds)),
      stagedBytes: values(({ stagedBytes }) => stagedBytes),
      trunksPerMinute: values(({ trunks, seconds }) => share(trunks * 60, seconds)),
      fill: values(({ fill, trunks }) => share(fill, trunks)),
      cacheHits: values(({ cacheHits, cacheMisses }) => share(cacheHits, cacheHits + cacheMisses)),
      load: values(({ load }) => load?.load),
      forecast: values(({ load }) => load?.forecast),
    };
  }
}
