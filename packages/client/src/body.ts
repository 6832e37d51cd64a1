import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import { types } from 'node:util';
import { abortable } from '@stevedore/async';
import { messageOf } from '@stevedore/protocol';
import { StoreError } from '@stevedore/staging/errors';
import { invalidOption } from './options.js';
import type { Body } from './types.js';

/** A Buffer for bytes in memory, chunks for a stream. Throws `invalid_option` for anything else. */
export function readBody(body: Body): Buffer | AsyncIterable<Uint8Array> {
  if (typeof body === 'string') return Buffer.from(body);
  if (types.isUint8Array(body)) return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (types.isArrayBuffer(body)) return Buffer.from(body);
  if (body instanceof Blob) return body.stream() as ReadableStream<Uint8Array>;
  if (body instanceof Readable || body instanceof ReadableStream || isIterable(body)) {
    return body as AsyncIterable<Uint8Array>;
  }
  throw invalidOption('the body is neither text, bytes, a Blob, a stream nor an async iterable');
}

function isIterable(body: unknown): boolean {
  return (
    typeof (body as Partial<AsyncIterable<unknown>> | null)?.[Symbol.asyncIterator] === 'function'
  );
}

/**
 * Passes every chunk to `onChunk`. Rejects with `aborted` if the body fails. Stops a body that is
 * not read to its end.
 */
export async function drain(
  body: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
  onChunk: (chunk: Uint8Array) => Promise<void>,
): Promise<void> {
  const chunks = body[Symbol.asyncIterator]();
  let finished = false;
  try {
    for (;;) {
      const { done, value } = await nextChunk(chunks, signal);
      if (done) {
        finished = true;
        return;
      }
      await onChunk(value);
    }
  } finally {
    // Not awaited: an aborted source may never settle.
    if (!finished) chunks.return?.()?.then(undefined, () => undefined);
  }
}

async function nextChunk(
  chunks: AsyncIterator<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<IteratorResult<Uint8Array>> {
  try {
    if (!signal) return await chunks.next();
    signal.throwIfAborted();
    return await abortable(chunks.next(), signal);
  } catch (error) {
    throw interrupted(error);
  }
}

export function interrupted(cause: unknown): StoreError {
  const reason = messageOf(cause);
  const message = `the body did not arrive whole (${reason}); nothing was stored`;
  return new StoreError('aborted', message, { cause });
}
