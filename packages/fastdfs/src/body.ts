import { randomUUID } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { types } from 'node:util';
import { howUsed } from '@stevedore/async';
import { BodySource, type PreparedBody, SourceCursor } from '@stevedore/wire';
import type { Deadline } from './deadline.js';
import { FastdfsError } from './errors.js';
import type { Settings } from './options.js';

/**
 * Accepts the bytes of a file in any form and prepares them as one of two: an array, or a source of
 * known size. A path is read while it is sent, and can be read again. An iterable of unknown length
 * is spooled first.
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
  if (types.isUint8Array(body)) {
    if (size !== undefined && size !== body.length) {
      throw mismatch(operation, body.length, size);
    }
    const bytes = Buffer.isBuffer(body)
      ? body
      : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    return { kind: 'array', bytes };
  }
  if (typeof body === 'object' && body !== null) {
    // File streams also have a path, but are read as streams.
    if (Symbol.asyncIterator in body) {
      const how = howUsed(body);
      if (how !== undefined) throw invalid(operation, `the body ${how}`);
      return { kind: 'iterable', source: body, size };
    }
    if (typeof body.path === 'string') return { kind: 'path', path: body.path, size };
  }
  throw invalid(operation, 'the body is neither bytes, an async iterable of bytes nor a path');
}

/** Opens the file or fills the spool. Passes on errors of the file or source as they are. */
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

/** Size of the body, if it is known before preparation. */
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

/**
 * Holds a body of unknown length until its length is known, because every upload starts with it: in
 * memory while it is small, then in an unnamed file that the system frees even after a crash.
 *
 * The alternative, an appender file that is renamed at the end, needs no local disk. But storages
 * before 6.02 cannot do it, a failure leaves part of the file behind, and the bytes cannot be sent
 * again to another storage. A spool works with every storage and can be repeated.
 */

const MEMORY_BYTES = 256 * 1024;

async function spool(
  source: AsyncIterable<Uint8Array>,
  settings: Pick<Settings, 'maxSpoolBytes' | 'spoolDirectory'>,
  deadline: Deadline,
): Promise<PreparedBody> {
  const cursor = new SourceCursor(source);
  let held: Uint8Array[] = [];
  let handle: FileHandle | undefined;
  let size = 0;
  let inMemory = 0;
  const release = async (): Promise<void> => handle?.close();
  try {
    for (;;) {
      deadline.watch(cursor.interrupt);
      const chunk = await cursor.next(deadline);
      deadline.throwIfEnded();
      deadline.unwatch();
      if (chunk === undefined) break;
      size += chunk.length;
      if (size > settings.maxSpoolBytes) {
        throw deadline.error('too_large', `more than ${settings.maxSpoolBytes} bytes`);
      }
      // A copy: the next chunk may have the same memory.
      held.push(Buffer.from(chunk));
      inMemory += chunk.length;
      if (inMemory <= MEMORY_BYTES) continue;
      handle ??= await openNameless(settings.spoolDirectory);
      await handle.appendFile(held.length === 1 ? held[0]! : Buffer.concat(held));
      held = [];
      inMemory = 0;
      deadline.allowBytes(size);
    }
    if (!handle) return { size, payload: Buffer.concat(held), release };
    await handle.appendFile(Buffer.concat(held));
    const file = handle;
    return { size, payload: new BodySource(() => readFrom(file), size, true), release };
  } catch (error) {
    deadline.unwatch();
    await release();
    throw error;
  } finally {
    cursor.stop();
  }
}

async function openNameless(directory: string): Promise<FileHandle> {
  const path = join(directory, `stevedore-${randomUUID()}.spool`);
  const handle = await open(path, 'wx+', 0o600);
  try {
    await unlink(path);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** The bytes of an open file from its start to its end, in chunks of their own. */

const CHUNK_BYTES = 256 * 1024;

async function* readFrom(handle: FileHandle): AsyncGenerator<Uint8Array> {
  let position = 0;
  for (;;) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}
