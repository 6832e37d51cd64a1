import type { ByteSource } from './byte-source.js';

/**
 * The raw bytes behind the head of a request. Whoever handles the request reads
 * them as fast as it can store them; what it leaves unread never becomes a request.
 */
export class Payload {
  readonly #source: ByteSource;
  readonly #timeoutMs: number;
  #remaining: number;

  constructor(source: ByteSource, bytes: number, timeoutMs: number) {
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
