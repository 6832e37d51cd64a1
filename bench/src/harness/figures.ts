/**
 * What was measured: any number of runs per figure. Ids are stable from version to
 * version, so that two reports can be compared: dots from the general to the
 * particular (`upload.gateway.c20.rate`).
 */

interface Samples {
  readonly unit: string;
  readonly values: number[];
}

export class Figures {
  readonly #samples = new Map<string, Samples>();

  add(id: string, unit: string, value: number): void {
    if (!Number.isFinite(value)) throw new RangeError(`${id} is ${value}`);
    const samples = this.#samples.get(id) ?? { unit, values: [] };
    if (samples.unit !== unit) throw new Error(`${id} is in ${samples.unit}, not in ${unit}`);
    samples.values.push(value);
    this.#samples.set(id, samples);
  }

  /** Several figures of one thing, `[value, unit]` each; undefined: it could not be measured. */
  addAll(
    id: string,
    values: Readonly<Record<string, readonly [value: number | undefined, unit: string]>>,
  ): void {
    for (const [what, [value, unit]] of Object.entries(values)) {
      if (value !== undefined) this.add(`${id}.${what}`, unit, value);
    }
  }

  /** Of the last value of one to that of another: of one run or turn, so that both met the same. */
  addRatio(id: string, of: string, to: string): void {
    if (this.has(of) && this.has(to)) this.add(id, 'times', this.last(of) / this.last(to));
  }

  has(id: string): boolean {
    return this.#samples.has(id);
  }

  /** In the order of the runs. */
  values(id: string): readonly number[] {
    const samples = this.#samples.get(id);
    if (!samples) throw new Error(`there is no figure ${id}`);
    return samples.values;
  }

  last(id: string): number {
    return this.values(id).at(-1) ?? Number.NaN;
  }

  summary(id: string): Summary {
    return summarize(this.values(id));
  }

  median(id: string): number {
    return this.summary(id).median;
  }

  /** All summaries, in the format of the JSON report. */
  list() {
    return [...this.#samples].map(([id, { unit, values }]) => ({
      id,
      unit,
      runs: values.length,
      ...summarize(values),
    }));
  }
}

export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export function summarize(values: readonly number[]): Summary {
  if (values.length === 0) throw new RangeError('nothing was measured');
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle]!;
  const median = sorted.length % 2 === 1 ? upper : (sorted[middle - 1]! + upper) / 2;
  return { median, min: sorted[0]!, max: sorted.at(-1)! };
}

export function median(values: readonly number[]): number {
  return summarize(values).median;
}

/** 0 of none. */
export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}

/** Of values in ascending order; the least that so large a share of them does not exceed. */
export function percentile(sorted: readonly number[], share: number): number {
  const at = Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1);
  return sorted[Math.max(0, at)] ?? Number.NaN;
}
