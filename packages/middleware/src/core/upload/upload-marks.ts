/**
 * Marks of uploads: who is using one now, and which one-time marks are spent although their file is
 * gone. While the file exists, its record has the mark; an unfinished upload has it too.
 */

/** `spent`: the mark was good for one file, which was stored here. */
export type MarkState = 'free' | 'taken' | 'spent';

export interface UploadMarks {
  /** Takes the mark, unless it is `taken`. */
  begin(name: string): MarkState | Promise<MarkState>;
  /** Lets go of a mark that `begin` took; `isSpent` if it was good for one file, now stored. */
  end(name: string, isSpent: boolean): void;
}

/** The oldest spent marks are forgotten. */
const MAX_SPENT = 100_000;

export class LocalMarks implements UploadMarks {
  /** Bounded by the requests in progress. */
  readonly #taken = new Set<string>();
  readonly #spent = new Set<string>();

  begin(name: string): MarkState {
    if (this.#taken.has(name)) return 'taken';
    this.#taken.add(name);
    return this.#spent.has(name) ? 'spent' : 'free';
  }

  end(name: string, isSpent: boolean): void {
    this.#taken.delete(name);
    if (!isSpent) return;
    this.#spent.add(name);
    if (this.#spent.size > MAX_SPENT) this.#spent.delete(this.#spent.values().next().value!);
  }
}
