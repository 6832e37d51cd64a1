import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream';
import { isStoreError } from '@stevedore/client';
import type { SentContent, UnsentBytes } from '@stevedore/middleware/core';

/**
 * Sends a stream as an answer, at the pace of its client. A client that accepts nothing counts as a
 * stalled download, and is disconnected like one. If the stream fails, the connection closes before
 * the answer is complete, so that nobody takes a part for the whole.
 */
export class PacedStream implements SentContent {
  readonly #stream: Readable;
  readonly #unsent: UnsentBytes;

  constructor(stream: Readable, unsent: UnsentBytes) {
    this.#stream = stream.on('error', () => {});
    this.#unsent = unsent;
  }

  close(): void {
    this.#stream.destroy();
  }

  send(response: ServerResponse, onError: (error: unknown) => void): void {
    const hold = this.#unsent.hold();
    const end = (): void => void response.destroy();
    this.#stream.on('pause', () => {
      const bytes = response.writableLength;
      hold.wait(bytes, { trim: () => bytes, end });
    });
    response.on('drain', () => hold.moved());
    pipeline(this.#stream, response, (error) => {
      hold.release();
      const isLeft = error?.code === 'ERR_STREAM_PREMATURE_CLOSE';
      // A file that is deleted meanwhile is no fault.
      if (error && !isLeft && !isStoreError(error, 'not_found')) onError(error);
    });
  }
}
