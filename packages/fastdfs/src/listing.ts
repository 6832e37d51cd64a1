import { Readable } from 'node:stream';
import {
  decodeListingLine,
  encodeRequest,
  type FilesOfPath,
  type FrameHeader,
  fetchOnePathBinlog,
  LISTING_END_BYTES,
  type ListingLine,
  MAX_LISTING_LINE_BYTES,
  OPEN_BODY_BYTES,
  ProtocolError,
  Status,
} from '@stevedore/protocol';
import {
  type Address,
  type Connection,
  MAX_ERROR_BODY_BYTES,
  ReplyReader,
  type ReplySink,
} from '@stevedore/wire';
import { type Caller, checkStatus } from './caller.js';
import type { Deadline } from './deadline.js';
import { FastdfsError } from './errors.js';

/**
 * A storage's list of its files, read as it comes: at most what the stream buffers and
 * one line are in memory, whatever the storage holds. The list is whole only if the
 * number behind it is that of its bytes; a connection that ends sooner is an error,
 * never a short list.
 */

const STREAM_BUFFER_BYTES = 256 * 1024;
/** The deadline grows with what has come, in steps of this. */
const DEADLINE_STEP_BYTES = 2 ** 20;

/** Yields the lines. Settles the deadline at its end. */
export async function* readListing(
  caller: Caller,
  address: Address,
  request: FilesOfPath,
  deadline: Deadline,
): AsyncGenerator<ListingLine> {
  const stream = await openListing(caller, address, request, deadline);
  try {
    yield* linesOf(stream);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw deadline.error('bad_reply', error.message, { address: address.text, cause: error });
  } finally {
    stream.destroy();
    deadline.settle();
  }
}

function openListing(
  caller: Caller,
  address: Address,
  request: FilesOfPath,
  deadline: Deadline,
): Promise<Readable> {
  const frame = encodeRequest(fetchOnePathBinlog, request);
  return new Promise((resolve, reject) => {
    let stream: Readable | undefined;
    const stepMs = deadline.remainingMs;
    caller
      .withConnection(address, deadline, stepMs, async (connection) => {
        const sink = new ListingReply(connection, deadline, (opened) => {
          stream = opened;
          resolve(opened);
        });
        const progressMs = caller.progressMs(stepMs);
        const reader = new ReplyReader(sink);
        try {
          await connection.exchange([frame], reader, deadline, progressMs);
        } catch (error) {
          // That the server closes is how a listing ends.
          const isEnd = error instanceof FastdfsError && error.code === 'connection_lost';
          if (!isEnd || !stream) throw error;
          return;
        }
        checkStatus(connection, sink.status, deadline);
      })
      .then(
        () => {
          if (stream) stream.push(null);
          else reject(deadline.error('bad_reply', 'no listing came', { address: address.text }));
        },
        (error) => {
          if (stream) stream.destroy(error as Error);
          else reject(error as Error);
        },
      );
  });
}

class ListingReply implements ReplySink {
  readonly mayBeOpen = true;
  status = 0;
  readonly #connection: Connection;
  readonly #deadline: Deadline;
  readonly #onOpen: (stream: Readable) => void;
  #stream: Readable | undefined;
  #bytes = 0;
  #allowedBytes = 0;

  constructor(connection: Connection, deadline: Deadline, onOpen: (stream: Readable) => void) {
    this.#connection = connection;
    this.#deadline = deadline;
    this.#onOpen = onOpen;
  }

  head(header: FrameHeader): void {
    this.status = header.status;
    if (header.status !== Status.ok) {
      if (header.bodyBytes <= MAX_ERROR_BODY_BYTES) return;
      throw new ProtocolError(`an error reply announces ${header.bodyBytes} bytes`);
    }
    if (header.bodyBytes !== OPEN_BODY_BYTES) {
      throw new ProtocolError(`a listing announces ${header.bodyBytes} bytes`);
    }
    this.#stream = new Readable({
      highWaterMark: STREAM_BUFFER_BYTES,
      read: () => this.#connection.resume(),
      destroy: (error, done) => {
        this.#connection.destroy(this.#deadline.error('aborted', 'the listing was given up'));
        done(error);
      },
    });
    this.#stream.on('error', () => {});
    this.#onOpen(this.#stream);
  }

  chunk(bytes: Buffer): void {
    this.#bytes += bytes.length;
    if (this.#bytes > this.#allowedBytes) {
      this.#allowedBytes = this.#bytes + DEADLINE_STEP_BYTES;
      this.#deadline.allowBytes(this.#allowedBytes);
    }
    if (this.#stream && !this.#stream.push(bytes)) this.#connection.pause();
  }
}

/** Throws ProtocolError for what is no listing, or not all of one. */
async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<ListingLine> {
  let rest: Buffer = Buffer.alloc(0);
  let textBytes = 0;
  for await (const chunk of chunks) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    // The number at the end may have bytes that look like the end of a line.
    const limit = bytes.length - LISTING_END_BYTES;
    for (;;) {
      const end = bytes.indexOf(0x0a, at);
      if (end < 0 || end >= limit) break;
      yield decodeListingLine(bytes.toString('latin1', at, end));
      at = end + 1;
    }
    textBytes += at;
    rest = bytes.subarray(at);
    if (rest.length > MAX_LISTING_LINE_BYTES + LISTING_END_BYTES) {
      throw new ProtocolError('a listing has a line without an end');
    }
  }
  if (rest.length !== LISTING_END_BYTES || Number(rest.readBigInt64BE()) !== textBytes) {
    throw new ProtocolError('a listing ends before its end');
  }
}
