/**
 * The directory pair that takes new files: moves on after so many files, the
 * second number first, and wraps around.
 */

export interface RotationState {
  readonly high: number;
  readonly low: number;
  /** Files put into the pair so far. */
  readonly files: number;
}

export class DirectoryRotation {
  readonly #subdirectories: number;
  readonly #filesPerDirectory: number;
  readonly #moved: () => void;
  #state: RotationState;

  /** `moved` is called for every new pair. */
  constructor(
    start: RotationState,
    subdirectories: number,
    filesPerDirectory: number,
    moved: () => void,
  ) {
    this.#subdirectories = subdirectories;
    this.#filesPerDirectory = filesPerDirectory;
    this.#moved = moved;
    const fits = start.high < subdirectories && start.low < subdirectories;
    this.#state = fits ? start : { high: 0, low: 0, files: 0 };
  }

  get state(): RotationState {
    return this.#state;
  }

  /** The pair for one more file. */
  next(): { readonly high: number; readonly low: number } {
    const { high, low, files } = this.#state;
    if (files < this.#filesPerDirectory) {
      this.#state = { high, low, files: files + 1 };
      return this.#state;
    }
    const overflow = low + 1 >= this.#subdirectories;
    this.#state = {
      high: overflow ? (high + 1) % this.#subdirectories : high,
      low: overflow ? 0 : low + 1,
      files: 1,
    };
    this.#moved();
    return this.#state;
  }
}
