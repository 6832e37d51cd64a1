/** Bytes in memory that are written anywhere and grow, up to a bound of their owner's. */
export class GrowingBytes {
  #buffer: Buffer;
  #size: number;

  constructor(initial: Buffer = Buffer.alloc(0)) {
    this.#buffer = Buffer.from(initial);
    this.#size = initial.length;
  }

  get size(): number {
    return this.#size;
  }

  /** As they are now; not to be kept over the next change. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  readAt(target: Buffer, position: number): number {
    if (position >= this.#size) return 0;
    return this.#buffer.copy(target, 0, position, this.#size);
  }

  writeAt(chunks: readonly Uint8Array[], position: number): void {
    let at = position;
    this.#reserve(at + bytesOf(chunks));
    for (const chunk of chunks) {
      this.#buffer.set(chunk, at);
      at += chunk.length;
    }
    this.#size = Math.max(this.#size, at);
  }

  truncate(size: number): void {
    this.#reserve(size);
    if (size < this.#size) this.#buffer.fill(0, size, this.#size);
    this.#size = size;
  }

  /** What is behind the size is zeros always. */
  #reserve(size: number): void {
    if (size <= this.#buffer.length) return;
    const grown = Buffer.alloc(Math.max(size, 2 * this.#buffer.length, LEAST_BYTES));
    this.#buffer.copy(grown, 0, 0, this.#size);
    this.#buffer = grown;
  }
}

const LEAST_BYTES = 4096;

export function bytesOf(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((sum, { length }) => sum + length, 0);
}
