import { OutgoingMessage, type ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ByteRange, StoredFile } from '@stevedore/client';
import { isStoreError } from '@stevedore/client/connect';
import { ProblemError } from '../problems.js';
import type { Hold, UnsentBytes } from './unsent-bytes.js';
import { whenClosed } from './when-closed.js';

/**
 * Sends the content of an answer at the pace of its client, in pieces: the next one when the system
 * has accepted the one before. If memory is short, bytes read ahead may be dropped and read again.
 */

/** Shorter content is sent in one piece. */
const SHORT_BYTES = 128 * 2 ** 10;
/** Longer than what a socket buffers without signalling backpressure. */
const PIECE_BYTES = 64 * 2 ** 10;
/** For a client that was slow before, so that its progress shows sooner. */
const SLOW_PIECE_BYTES = 32 * 2 ** 10;
/** Bytes to send to one client before others get their turn. */
const TURN_BYTES = 2 ** 19;
/** Longer files come as streams, which buffer about this much. */
const MAX_WHOLE_BYTES = 16 * 2 ** 20;
const STREAM_BYTES = 2 ** 19;

/** The client, and the memory that it may use. */
export interface Pace {
  readonly unsent: UnsentBytes;
  /** True once the answer can no longer be delivered. */
  readonly isGone: () => boolean;
}

/**
 * Short content as it is; otherwise a writer. Resolves when the first bytes of the file are read.
 * Rejects with the store's errors, and `aborted`.
 */
export async function pacedContent(
  file: StoredFile,
  range: ByteRange,
  pace: Pace,
): Promise<Buffer | PacedContent> {
  const content = new PacedContent(file, range, pace);
  try {
    return await content.begin();
  } catch (error) {
    content.close();
    throw error;
  }
}

/**
 * Short content that can be read without waiting. Undefined if the file is longer, if it takes time
 * to read it, or if the memory is used up: then `pacedContent` waits for it.
 */
export function shortContent(file: StoredFile, { unsent }: Pace): Buffer | undefined {
  return file.size <= SHORT_BYTES && unsent.hasRoom ? file.contentNow() : undefined;
}

export class PacedContent {
  readonly #file: StoredFile;
  readonly #pace: Pace;
  readonly #hold: Hold;
  /** What remains to be sent; undefined at the end. */
  #range: ByteRange | undefined;
  /** Bytes that were read, from the start of the range. */
  #bytes: Buffer | undefined;
  #stream: Readable | undefined;
  #chunks: AsyncIterator<Buffer> | undefined;
  #pieceBytes = PIECE_BYTES;
  #isClosed = false;

  constructor(file: StoredFile, range: ByteRange, pace: Pace) {
    this.#file = file;
    this.#range = range;
    this.#pace = pace;
    this.#hold = pace.unsent.hold();
  }

  async begin(): Promise<Buffer | PacedContent> {
    await this.#open();
    const bytes = this.#bytes;
    if (!bytes || bytes.length > SHORT_BYTES) return this;
    this.close();
    return ownMemory(bytes);
  }

  /**
   * Sends the content after the head. A failure of either side closes the connection; `onError` is
   * called with the server's, which a deletion meanwhile is not.
   */
  send(response: ServerResponse, onError: (error: unknown) => void): void {
    this.#send(response).catch((error: Error) => {
      const isDeleted = isStoreError(error, 'not_found');
      if (!this.#isClosed && !this.#pace.isGone() && !isDeleted) onError(error);
      response.destroy(error);
    });
  }

  /** Releases its memory and stops reading. */
  close(): void {
    this.#isClosed = true;
    this.#forget();
    this.#hold.release();
  }

  async #send(response: ServerResponse): Promise<void> {
    for (let sentBytes = 0; !this.#isClosed; ) {
      if (!this.#range) {
        response.end();
        this.#pace.unsent.watch(response, PIECE_BYTES);
        return;
      }
      if (sentBytes >= TURN_BYTES) {
        sentBytes = 0;
        await nextTurn();
      }
      if (!this.#bytes) await this.#fill();
      if (this.#isClosed) return;
      // No variable for the piece: it would keep the file's memory while waiting for the client.
      const keptBytes = write(response, this.#next());
      sentBytes += this.#pieceBytes;
      if (keptBytes === 0) continue;
      // Any part of the file keeps all of its memory.
      const read = (this.#bytes?.buffer.byteLength ?? 0) + (this.#stream ? STREAM_BYTES : 0);
      this.#hold.wait(keptBytes + read, {
        trim: (bytes) => keptBytes + this.#trim(bytes),
        end: () => response.destroy(),
      });
      this.#pieceBytes = SLOW_PIECE_BYTES;
      await drained(response);
      this.#hold.moved();
    }
  }

  async #fill(): Promise<void> {
    if (!this.#chunks) {
      await this.#open();
      // It is read again because there was no memory to keep it, and that may still be so.
      const { unsent } = this.#pace;
      if (this.#bytes) unsent.resize(this.#hold, this.#trim(unsent.shareBytes));
      if (this.#bytes || this.#isClosed) return;
    }
    const next = await this.#chunks?.next();
    if (!next || next.done) throw new Error('the content ended before its length');
    this.#bytes = next.value;
  }

  async #open(): Promise<void> {
    const { size } = this.#file;
    const range = this.#range;
    const { unsent, isGone } = this.#pace;
    const bytes = size <= MAX_WHOLE_BYTES ? size : STREAM_BYTES;
    const room = unsent.reserve(this.#hold, bytes, () => this.#isClosed || isGone());
    if (room) await room;
    if (this.#isClosed) return;
    if (isGone()) throw new ProblemError('aborted', 'The client closed the connection.');
    const isPart = range && (range.start > 0 || range.end < size - 1);
    const content = await this.#file.content(isPart ? { range } : undefined);
    if (Buffer.isBuffer(content)) {
      this.#bytes = content;
    } else {
      this.#stream = content.on('error', () => {});
      this.#chunks = content[Symbol.asyncIterator]();
    }
    if (this.#isClosed) this.close();
  }

  #next(): Buffer {
    const bytes = this.#bytes;
    const range = this.#range;
    if (!bytes || !range) throw new Error('nothing was read to be sent');
    const piece = bytes.subarray(0, this.#pieceBytes);
    this.#bytes = bytes.length > piece.length ? bytes.subarray(piece.length) : undefined;
    const start = range.start + piece.length;
    this.#range = start <= range.end ? { start, end: range.end } : undefined;
    if (!this.#range) this.#forget();
    return piece;
  }

  #trim(bytes: number): number {
    const read = this.#bytes;
    this.#forget();
    if (!read) return 0;
    this.#bytes = ownMemory(read.subarray(0, bytes));
    return this.#bytes.length;
  }

  #forget(): void {
    this.#bytes = undefined;
    this.#chunks = undefined;
    this.#stream?.destroy();
    this.#stream = undefined;
  }
}

/** Memory that pieces are written from, so that they do not keep the whole file's. */
let scratch = Buffer.allocUnsafeSlow(PIECE_BYTES);

/**
 * Writes the piece; returns the bytes of memory held until the response emits `drain`. None, if
 * `write` does not ask to wait: what stands in for a socket under test, or serverless, may never
 * emit it.
 */
function write(response: ServerResponse, piece: Buffer): number {
  const { socket } = response;
  const isCopied = keepsMore(piece);
  // Middleware that wraps the response may keep what it is given.
  const isWrapped = response.write !== OutgoingMessage.prototype.write;
  const usesScratch = isCopied && !isWrapped && piece.length > SLOW_PIECE_BYTES;
  const isAccepted = usesScratch
    ? response.write(scratch.subarray(0, piece.copy(scratch)))
    : response.write(isCopied ? Buffer.from(piece) : piece);
  // The HTTP server buffers it until the end of this turn.
  while (socket && socket.writableCorked > 0) socket.uncork();
  if (response.writableLength === 0) return 0;
  if (usesScratch) scratch = Buffer.allocUnsafeSlow(PIECE_BYTES);
  // As in Node's own streams, only false asks to wait.
  if (isAccepted !== false) return 0;
  return usesScratch ? PIECE_BYTES : piece.length;
}

/** Resolves when what was written is accepted, or never will be. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    };
    response.once('drain', done);
    whenClosed(response, done);
  });
}

function ownMemory(bytes: Buffer): Buffer {
  return keepsMore(bytes) ? Buffer.from(bytes) : bytes;
}

/** True if a buffer holds much more memory than its own bytes. */
function keepsMore(bytes: Buffer): boolean {
  return bytes.buffer.byteLength > 2 * bytes.length + Buffer.poolSize;
}
