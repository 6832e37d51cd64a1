/**
 * Memory that bodies on their way in may hold together. What gets no share goes
 * to the disk instead; nobody waits for one, so nobody can wait for ever.
 */
export class ByteBudget {
  readonly #maxBytes: number;
  #takenBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  take(bytes: number): boolean {
    if (this.#takenBytes + bytes > this.#maxBytes) return false;
    this.#takenBytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#takenBytes -= bytes;
  }
}
