import { type Summary, summarize } from './statistics.js';

/**
 * What was measured: any number of runs per figure. Ids are stable from version to
 * version, so that two reports can be compared: dots from the general to the
 * particular, the unit last (`write.acknowledged.c20.MBps`).
 */

export interface Figure extends Summary {
  readonly id: string;
  readonly unit: string;
  readonly runs: number;
}

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

  has(id: string): boolean {
    return this.#samples.has(id);
  }

  /** In the order of the runs. */
  values(id: string): readonly number[] {
    const samples = this.#samples.get(id);
    if (!samples) throw new Error(`there is no figure ${id}`);
    return samples.values;
  }

  summary(id: string): Summary {
    return summarize(this.values(id));
  }

  list(): Figure[] {
    return [...this.#samples].map(([id, { unit, values }]) => ({
      id,
      unit,
      runs: values.length,
      ...summarize(values),
    }));
  }
}
