/**
 * Memory that bodies on their way in may hold together. What gets no share goes
 * to the disk instead; no upload waits for memory, so none waits for ever.
 */
export class ByteBudget {
  readonly #maxBytes: number;
  #takenBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** `share` of the whole that may be taken by then, from 0 to 1. */
  take(bytes: number, share = 1): boolean {
    if (this.#takenBytes + bytes > this.#maxBytes * share) return false;
    this.#takenBytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#takenBytes -= bytes;
  }
}
