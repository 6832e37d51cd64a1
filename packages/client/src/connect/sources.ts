import { crc32 } from 'node:zlib';
import { StoreError } from '@stevedore/staging/errors';
import { invalidOption } from '../options.js';
import { type BodyLimits, Chunks, readBody } from '../put/body.js';
import type { Body, Receipt } from '../store/types.js';

/** A body being sent to a gateway: summed up, and read no faster than it is sent. */
export class Source implements AsyncIterable<Uint8Array> {
  readonly #content: Buffer | Chunks;
  #crc32 = 0;
  #size = 0;
  /** Why the body failed. */
  failure: unknown;

  /** Throws the errors of the body that are known before it is read. */
  constructor(body: Body, limits: BodyLimits) {
    this.#content = readBody(body, limits);
    if (this.bytes) this.#add(this.bytes);
  }

  /** The whole body if it is in memory: then it can be sent again. */
  get bytes(): Buffer | undefined {
    return this.#content instanceof Chunks ? undefined : this.#content;
  }

  /** Undefined if unknown. */
  get announcedBytes(): number | undefined {
    return this.#content instanceof Chunks ? this.#content.announcedBytes : this.#content.length;
  }

  /** Size and CRC-32 of the bytes read so far. */
  get sums(): { readonly size: number; readonly crc32: number } {
    return { size: this.#size, crc32: this.#crc32 };
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    if (!(this.#content instanceof Chunks)) {
      yield this.#content;
      return;
    }
    try {
      for await (const chunk of this.#content) {
        this.#add(chunk);
        yield chunk;
      }
    } catch (error) {
      this.failure = error;
      throw error;
    }
  }

  /** Stops a body that is not read to its end. */
  stop(): void {
    if (this.#content instanceof Chunks) void this.#content.return();
  }

  #add(chunk: Uint8Array): void {
    this.#size += chunk.length;
    this.#crc32 = crc32(chunk, this.#crc32);
  }
}

/** A connection that was idle may be closed just as it is used again: most files fit into this. */
const MAX_REPEATED_BYTES = 256 * 1024;

/** What is read once and may be sent again: it keeps what it has read, as long as that is little. */
export class Repeatable implements AsyncIterable<Uint8Array> {
  readonly #iterator: AsyncIterator<Uint8Array>;
  readonly #read: Uint8Array[] = [];
  #readBytes = 0;
  #pulling: Promise<Uint8Array | undefined> | undefined;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#iterator = body[Symbol.asyncIterator]();
  }

  get mayRepeat(): boolean {
    return this.#readBytes <= MAX_REPEATED_BYTES;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    for (let sent = 0; ; sent += 1) {
      const chunk = this.#read[sent] ?? (await this.#next());
      if (!chunk) return;
      yield chunk;
    }
  }

  /** A chunk that an earlier attempt still waits for is the next of this one. */
  #next(): Promise<Uint8Array | undefined> {
    this.#pulling ??= this.#pull();
    return this.#pulling;
  }

  async #pull(): Promise<Uint8Array | undefined> {
    try {
      const { done, value } = await this.#iterator.next();
      if (done) return undefined;
      if (this.mayRepeat) this.#read.push(value);
      this.#readBytes += value.length;
      return value;
    } finally {
      this.#pulling = undefined;
    }
  }
}

/** Throws `corrupt` unless the gateway stored what was sent, or it was deleted since. */
export function demandSame(
  receipt: Pick<Receipt, 'size' | 'crc32' | 'state'>,
  sent: Pick<Receipt, 'size' | 'crc32'>,
): void {
  if (receipt.state === 'deleted') return;
  if (receipt.size === sent.size && receipt.crc32 === sent.crc32) return;
  throw new StoreError('corrupt', 'the gateway received different bytes than were sent', {
    retryable: true,
  });
}

/** Throws `invalid_option` for a media type that a header cannot carry. */
export function checkedType(type: string): string {
  if (/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(type)) return type;
  throw invalidOption(`type: "${type}" is no media type`);
}
