import { abortable } from '@stevedore/async';
import { messageOf } from '@stevedore/protocol';
import { isStoreError, StoreError } from '@stevedore/staging/errors';
import { invalidOption } from '../options.js';
import type { Body, PutOptions } from '../store/types.js';
import { begin, inMemory, kindOf, type Source, sourceOf } from './body-kinds.js';

/**
 * Reads a body of any kind: as bytes, whole, and within its limits. Exactly the bytes that the
 * caller or the body itself announces must arrive.
 */
export type BodyLimits = Pick<PutOptions, 'size' | 'maxBytes' | 'transfer' | 'signal'>;

/** A Buffer for bytes in memory, else chunks. Throws the errors that are known before reading. */
export function readBody(
  body: Body,
  limits: BodyLimits,
  maxBytes = limits.maxBytes ?? Number.POSITIVE_INFINITY,
): Buffer | Chunks {
  const { size, signal } = limits;
  if (signal?.aborted) throw interrupted(signal.reason);
  if (size !== undefined && size > maxBytes) throw tooLarge(maxBytes);
  const bytes = inMemory(body);
  const source = bytes ? undefined : sourceOf(body);
  const announced = bytes?.length ?? source?.bytes;
  if (announced !== undefined) {
    if (announced > maxBytes) throw tooLarge(maxBytes);
    checkSize(size, announced);
  }
  return bytes ?? new Chunks(source!, limits, maxBytes);
}

/** What fails it, or ends it early, stops its source as well. */
export class Chunks implements AsyncIterableIterator<Buffer> {
  readonly announcedBytes: number | undefined;
  readonly #source: Source;
  readonly #maxBytes: number;
  readonly #signal: AbortSignal | undefined;
  readonly #copies: boolean;
  #iterator: ReturnType<Source['iterate']> | undefined;
  #receivedBytes = 0;
  /** The first half of a surrogate pair, where a text ended between the two. */
  #half = '';

  constructor(source: Source, { size, transfer, signal }: BodyLimits, maxBytes: number) {
    this.announcedBytes = size ?? source.bytes;
    this.#source = source;
    this.#maxBytes = maxBytes;
    this.#signal = signal;
    this.#copies = source.reusesMemory === true && !transfer;
    // What can be read once is left alone until its turn: if that never comes, it is still whole.
    if (!source.once) this.#iterator = source.iterate();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    try {
      for (;;) {
        const { done, value } = await this.#pull();
        const bytes = this.#bytesOf(done ? new Uint8Array() : value);
        this.#count(bytes.length);
        if (bytes.length > 0) return { done: false, value: bytes };
        if (!done) continue;
        checkSize(this.announcedBytes, this.#receivedBytes);
        return { done: true, value: undefined };
      }
    } catch (error) {
      void this.return();
      throw error;
    }
  }

  /** Does not wait for the source: a stalled one may never settle. */
  async return(): Promise<IteratorResult<Buffer, undefined>> {
    const iterator = this.#iterator;
    const { stop = () => iterator?.return?.() } = this.#source;
    // The caller has an error already, or no interest in the rest.
    if (iterator) (async () => stop())().catch(() => undefined);
    return { done: true, value: undefined };
  }

  async #pull(): Promise<IteratorResult<unknown>> {
    const signal = this.#signal;
    try {
      signal?.throwIfAborted();
      this.#iterator ??= this.#begin();
      const next = Promise.resolve(this.#iterator.next());
      return await (signal ? abortable(next, signal) : next);
    } catch (error) {
      throw isStoreError(error, 'body_used') ? error : interrupted(error);
    }
  }

  /** Since the call, it may have failed, or somebody else may have begun to read it. */
  #begin(): ReturnType<Source['iterate']> {
    const { once, iterate } = this.#source;
    const { errored } = once as { readonly errored?: Error | null };
    if (errored) throw errored;
    begin(once!);
    return iterate();
  }

  #bytesOf(chunk: unknown): Buffer {
    const half = this.#half;
    this.#half = '';
    if (typeof chunk === 'string') {
      const text = half + chunk;
      const end = /[\ud800-\udbff]$/.test(text) ? text.length - 1 : text.length;
      this.#half = text.slice(end);
      return Buffer.from(text.slice(0, end), this.#source.encoding);
    }
    const bytes = inMemory(chunk);
    if (!bytes) throw invalidOption(`the body yields ${kindOf(chunk)}, neither bytes nor text`);
    if (half !== '') return Buffer.concat([Buffer.from(half), bytes]);
    return this.#copies ? Buffer.from(bytes) : bytes;
  }

  /** Never more than announced: a gateway would take the rest for the next request. */
  #count(bytes: number): void {
    this.#receivedBytes += bytes;
    if (this.#receivedBytes > this.#maxBytes) throw tooLarge(this.#maxBytes);
    if (this.#receivedBytes > (this.announcedBytes ?? Number.POSITIVE_INFINITY)) {
      checkSize(this.announcedBytes, this.#receivedBytes);
    }
  }
}

export function interrupted(cause: unknown): StoreError {
  const message = `the body did not arrive whole (${messageOf(cause)}); no file was stored`;
  return new StoreError('aborted', message, { cause });
}

function checkSize(announced: number | undefined, size: number): void {
  if (announced === undefined || announced === size) return;
  throw new StoreError(
    'length_mismatch',
    `the body has ${size} bytes, ${announced} were announced; no file was stored`,
  );
}

export function tooLarge(maxBytes: number): StoreError {
  return new StoreError('too_large', `the body is longer than the ${maxBytes} bytes allowed`);
}
