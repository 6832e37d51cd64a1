import { open } from 'node:fs/promises';
import { BodySource, type PreparedBody } from '@stevedore/wire';
import type { Deadline } from './deadline.js';
import { FastdfsError } from './errors.js';
import { readFrom } from './file-chunks.js';
import type { Settings } from './options.js';
import { spool } from './spool.js';

/**
 * What callers may hand over as the bytes of a file, brought to one of two forms:
 * an array, or a source of known size. A path is read as it is sent and can be read
 * again; an iterable of unknown length is spooled first.
 */

export type Body = Uint8Array | AsyncIterable<Uint8Array> | { readonly path: string };

export interface BodyOptions {
  /** Bytes of the body. An iterable without it is spooled before any of it is sent. */
  readonly size?: number | undefined;
}

/** A body whose form was checked, before any I/O. */
export type CheckedBody =
  | { readonly kind: 'array'; readonly bytes: Buffer }
  | { readonly kind: 'path'; readonly path: string; readonly size: number | undefined }
  | {
      readonly kind: 'iterable';
      readonly source: AsyncIterable<Uint8Array>;
      readonly size: number | undefined;
    };

/** Throws FastdfsError `invalid_argument` or `length_mismatch`. */
export function checkBody(operation: string, body: Body, { size }: BodyOptions): CheckedBody {
  if (size !== undefined && !isSize(size)) throw invalid(operation, `size is ${size}`);
  if (body instanceof Uint8Array) {
    if (size !== undefined && size !== body.length) {
      throw mismatch(operation, body.length, size);
    }
    const bytes = Buffer.isBuffer(body)
      ? body
      : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    return { kind: 'array', bytes };
  }
  if (typeof body === 'object' && body !== null) {
    // Streams of files have a path too, but are read as what they are.
    if (Symbol.asyncIterator in body) return { kind: 'iterable', source: body, size };
    if (typeof body.path === 'string') return { kind: 'path', path: body.path, size };
  }
  throw invalid(operation, 'the body is neither bytes, an async iterable of bytes nor a path');
}

/** Opens the file or fills the spool. Errors of file and source come out as they are. */
export async function prepareBody(
  body: CheckedBody,
  settings: Settings,
  deadline: Deadline,
): Promise<PreparedBody> {
  if (body.kind === 'array') return prepared(body.bytes.length, body.bytes);
  if (body.kind === 'path') return openPath(body, deadline);
  const { source, size } = body;
  if (size === undefined) return spool(source, settings, deadline);
  return prepared(size, new BodySource(() => source, size, false));
}

/** Bytes of the body as far as they are known before it is prepared. */
export function knownSize(body: CheckedBody): number | undefined {
  return body.kind === 'array' ? body.bytes.length : body.size;
}

export function isSize(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

export function invalid(operation: string, message: string): FastdfsError {
  return new FastdfsError('invalid_argument', message, { operation });
}

async function openPath(
  { path, size: expected }: { readonly path: string; readonly size: number | undefined },
  deadline: Deadline,
): Promise<PreparedBody> {
  const handle = await open(path, 'r');
  const release = (): Promise<void> => handle.close();
  try {
    const stat = await handle.stat();
    if (!stat.isFile()) throw invalid(deadline.operation, `${path} is not a regular file`);
    const { size } = stat;
    if (expected !== undefined && expected !== size) {
      throw mismatch(deadline.operation, size, expected);
    }
    deadline.throwIfEnded();
    deadline.allowBytes(size);
    return { size, payload: new BodySource(() => readFrom(handle), size, true), release };
  } catch (error) {
    await release();
    throw error;
  }
}

function prepared(size: number, payload: Buffer | BodySource): PreparedBody {
  return { size, payload, release: async () => {} };
}

function mismatch(operation: string, bytes: number, size: number): FastdfsError {
  return new FastdfsError('length_mismatch', `${bytes} bytes, size says ${size}`, { operation });
}
