import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import { invalidOption } from './options.js';
import type { Body } from './types.js';

/** A body in one of two forms: bytes that are there, or chunks that arrive. */
export type NormalBody =
  | { readonly bytes: Buffer }
  | {
      readonly chunks: AsyncIterator<Uint8Array>;
      readonly size: number | undefined;
    };

/** Throws `invalid_option` for what is no body. */
export function normalizeBody(body: Body): NormalBody {
  if (typeof body === 'string') return { bytes: Buffer.from(body) };
  if (body instanceof Uint8Array) {
    return {
      bytes: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
    };
  }
  if (body instanceof ArrayBuffer) return { bytes: Buffer.from(body) };
  if (body instanceof Blob) {
    return {
      chunks: iterate(body.stream() as ReadableStream<Uint8Array>),
      size: body.size,
    };
  }
  if (body instanceof Readable || body instanceof ReadableStream || isIterable(body)) {
    return {
      chunks: iterate(body as AsyncIterable<Uint8Array>),
      size: undefined,
    };
  }
  throw invalidOption('the body is neither text, bytes, a Blob, a stream nor an async iterable');
}

function isIterable(body: unknown): boolean {
  return (
    typeof (body as Partial<AsyncIterable<unknown>> | null)?.[Symbol.asyncIterator] === 'function'
  );
}

function iterate(body: AsyncIterable<Uint8Array>): AsyncIterator<Uint8Array> {
  return body[Symbol.asyncIterator]();
}
