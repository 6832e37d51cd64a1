/** How many files and bytes there are in each state; kept beside the rows they count. */

/** Files and their bytes: small and waiting, large and waiting, stored in FastDFS. */
export interface Counters {
  readonly waitingFiles: number;
  readonly waitingBytes: number;
  readonly spooledFiles: number;
  readonly spooledBytes: number;
  readonly mergedFiles: number;
  readonly mergedBytes: number;
}

export type Counted = 'waiting' | 'spooled' | 'merged';

/** Changes of the counters within one transaction, written at its end. */
export class Sums {
  readonly #changes: Record<keyof Counters, number> = {
    waitingFiles: 0,
    waitingBytes: 0,
    spooledFiles: 0,
    spooledBytes: 0,
    mergedFiles: 0,
    mergedBytes: 0,
  };

  add(what: Counted, files: number, bytes: number): void {
    this.#changes[`${what}Files`] += files;
    this.#changes[`${what}Bytes`] += bytes;
  }

  get values(): Counters {
    return { ...this.#changes };
  }

  /** Those that are not zero. */
  entries(): [string, number][] {
    return Object.entries(this.#changes).filter(([, value]) => value !== 0);
  }
}
