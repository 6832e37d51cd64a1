/** Where the bytes come from, such as a connection. */
export interface PayloadSource {
  /** What has arrived, from 1 to `most` bytes; waits for the first of them. */
  some(most: number, timeoutMs: number): Promise<Buffer[]>;
}

/**
 * The raw bytes behind the head of a request. The handler of the request reads
 * them as fast as it can store them; what it leaves unread never becomes a request.
 */
export class Payload {
  readonly #source: PayloadSource;
  readonly #timeoutMs: number;
  #remaining: number;

  constructor(source: PayloadSource, bytes: number, timeoutMs: number) {
    this.#source = source;
    this.#remaining = bytes;
    this.#timeoutMs = timeoutMs;
  }

  /** Bytes not read yet. */
  get remaining(): number {
    return this.#remaining;
  }

  /** The next bytes, at least one; empty when all have been read. */
  async next(): Promise<Buffer[]> {
    if (this.#remaining === 0) return [];
    const chunks = await this.#source.some(this.#remaining, this.#timeoutMs);
    for (const chunk of chunks) this.#remaining -= chunk.length;
    return chunks;
  }

  /** Reads and drops the rest. */
  async drain(): Promise<void> {
    while (this.#remaining > 0) await this.next();
  }
}
