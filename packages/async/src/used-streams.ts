import { Readable } from 'node:stream';

/**
 * Why a stream cannot yield all of its bytes any more: somebody has begun to read it, or it is over.
 * Undefined if it still can. For Node streams, also old ones, web streams and iterators.
 */
export function howUsed(stream: object): string | undefined {
  const { errored, locked, destroyed, readable, readableDidRead, readableEnded, _released } =
    stream as Readable & ReadableStream & { readonly _released?: boolean };
  if (errored) return `has failed: ${errored.message}`;
  if (destroyed && !readableDidRead && !readableEnded) return 'was destroyed';
  // form-data shows only by `_released` that it flows, and would never end.
  const isOver = readable === false || _released === true;
  if (isOver || Readable.isDisturbed(stream as Readable)) return WAS_READ;
  return locked ? 'has another reader' : undefined;
}

export const WAS_READ = 'was read before, at least in part';
