import { types } from 'node:util';
import { crc32 } from 'node:zlib';
import { abortable } from '@stevedore/async';
import { StoreError } from '@stevedore/staging/errors';
import { interrupted, readBody } from '../body.js';
import { checkSize, tooLarge } from '../intake.js';
import { invalidOption } from '../options.js';
import type { Body, PutOptions } from '../types.js';

/**
 * A body being sent to a gateway: counted, checked against its announced length, and read no faster
 * than it is sent.
 */
export class Source implements AsyncIterable<Uint8Array> {
  readonly #chunks: AsyncIterator<Uint8Array> | undefined;
  readonly #bytes: Buffer | undefined;
  readonly #limits: Pick<PutOptions, 'size' | 'maxBytes'>;
  readonly #signal: AbortSignal | undefined;
  #crc32 = 0;
  #size = 0;
  /** True once reading has begun. */
  isBegun = false;
  /** Why the body failed. */
  failure: unknown;

  /** Throws the errors of the body that are known before it is read. */
  constructor(
    body: Body,
    limits: Pick<PutOptions, 'size' | 'maxBytes'>,
    signal: AbortSignal | undefined,
  ) {
    this.#limits = limits;
    this.#signal = signal;
    const { size, maxBytes = Number.POSITIVE_INFINITY } = limits;
    if (size !== undefined && size > maxBytes) throw tooLarge(maxBytes);
    const bytes = readBody(body);
    if (Buffer.isBuffer(bytes)) {
      this.#bytes = bytes;
      this.#count(bytes);
      checkSize(size, bytes.length);
    } else {
      this.#chunks = bytes[Symbol.asyncIterator]();
    }
  }

  /** The whole body if it is in memory: then it can be sent again. */
  get bytes(): Buffer | undefined {
    return this.#bytes;
  }

  /** Size and CRC-32 of the bytes read so far. */
  get sums(): { readonly size: number; readonly crc32: number } {
    return { size: this.#size, crc32: this.#crc32 };
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    this.isBegun = true;
    if (this.#bytes) yield this.#bytes;
    else yield* this.#pulled();
  }

  async *#pulled(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (;;) {
        const { done, value } = await this.#next();
        if (done) break;
        if (!types.isUint8Array(value)) {
          throw invalidOption('the body yields something else than bytes');
        }
        this.#count(value);
        if (value.length > 0) yield value;
      }
      checkSize(this.#limits.size, this.#size);
    } catch (error) {
      this.failure = error;
      throw error;
    }
  }

  /** Stops a body that is not read to its end. Not awaited: a stalled one may never settle. */
  stop(): void {
    this.#chunks?.return?.()?.then(undefined, () => undefined);
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    try {
      const next = this.#chunks!.next();
      return await (this.#signal ? abortable(next, this.#signal) : next);
    } catch (error) {
      throw interrupted(error);
    }
  }

  #count(chunk: Uint8Array): void {
    const { maxBytes = Number.POSITIVE_INFINITY, size = Number.POSITIVE_INFINITY } = this.#limits;
    this.#size += chunk.length;
    if (this.#size > maxBytes) throw tooLarge(maxBytes);
    // Never more than announced: the gateway would take the excess for the next request.
    if (this.#size > size && this.#chunks) checkSize(size, this.#size);
    this.#crc32 = crc32(chunk, this.#crc32);
  }
}

/** Throws `corrupt` unless the gateway stored what was sent. */
export function demandSame(
  receipt: { readonly size: number; readonly crc32: number },
  sent: { readonly size: number; readonly crc32: number },
): void {
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
