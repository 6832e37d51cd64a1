import assert from 'node:assert';
import {
  type Counters,
  type FileChange,
  type FileState,
  NEXT_FILE_STATES,
  NO_FILES,
} from './rows.js';

/** What one transaction changes in the counters: every change of the state of files. */
export class CounterChanges {
  readonly #sums: Record<keyof Counters, number> = { ...NO_FILES };

  /** Those that are not zero. */
  entries(): readonly (readonly [name: string, value: number])[] {
    return Object.entries(this.#sums).filter(([, value]) => value !== 0);
  }

  /** Derived files among them are counted again, with `passDerived`. */
  pass(from: FileState | 'none', to: FileState | 'none', bytes: number, files = 1): void {
    assert(NEXT_FILE_STATES[from].includes(to), `a file cannot change from ${from} to ${to}`);
    this.#count(from, -files, -bytes);
    this.#count(to, files, bytes);
  }

  passDerived(from: FileState | 'none', to: FileState | 'none', bytes: number, files = 1): void {
    this.#count(derivedIn(from), -files, -bytes);
    this.#count(derivedIn(to), files, bytes);
  }

  /** One file, derived or not. */
  passOne(
    from: FileState | 'none',
    to: FileState | 'none',
    { size, pictureOf }: Pick<FileChange, 'size' | 'pictureOf'>,
  ): void {
    this.pass(from, to, size);
    if (pictureOf) this.passDerived(from, to, size);
  }

  #count(state: FileState | ReturnType<typeof derivedIn>, files: number, bytes: number): void {
    if (state === 'none') return;
    this.#sums[`${state}Files`] += files;
    this.#sums[`${state}Bytes`] += bytes;
  }
}

function derivedIn(state: FileState | 'none'): 'none' | 'derivedStaged' | 'derivedMerged' {
  if (state === 'none') return state;
  return state === 'merged' ? 'derivedMerged' : 'derivedStaged';
}
