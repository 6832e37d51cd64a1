import { types } from 'node:util';
import { howUsed } from '@stevedore/async';
import { BodySource, type PreparedBody } from '@stevedore/wire';
import { FastdfsError } from './errors.js';

/** The bytes of a file to send: an array, or a source of known size, which can be read once. */
export type Body = Uint8Array | AsyncIterable<Uint8Array>;

export interface BodyOptions {
  /** Bytes of the body. An iterable needs it, because every upload begins with it. */
  readonly size?: number | undefined;
}

/** Throws FastdfsError `invalid_argument` or `length_mismatch`. Does no I/O. */
export function prepareBody(operation: string, body: Body, { size }: BodyOptions): PreparedBody {
  if (size !== undefined && !isSize(size)) throw invalid(operation, `size is ${size}`);
  if (types.isUint8Array(body)) {
    if (size !== undefined && size !== body.length) {
      const message = `${body.length} bytes, size says ${size}`;
      throw new FastdfsError('length_mismatch', message, { operation });
    }
    const payload = Buffer.isBuffer(body)
      ? body
      : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    return { size: payload.length, payload };
  }
  if (typeof body !== 'object' || body === null || !(Symbol.asyncIterator in body)) {
    throw invalid(operation, 'the body is neither bytes nor an async iterable of bytes');
  }
  const how = howUsed(body);
  if (how !== undefined) throw invalid(operation, `the body ${how}`);
  if (size === undefined) throw invalid(operation, 'the size of the body is missing');
  return { size, payload: new BodySource(() => body, size, false) };
}

export function isSize(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

export function invalid(operation: string, message: string): FastdfsError {
  return new FastdfsError('invalid_argument', message, { operation });
}
