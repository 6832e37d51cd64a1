import { Readable } from 'node:stream';
import {
  type DownloadRequest,
  downloadFile,
  encodeRequest,
  type FrameHeader,
  ProtocolError,
  parseFileId,
  Status,
} from '@stevedore/protocol';
import {
  type Address,
  CollectedReply,
  type Connection,
  MAX_ERROR_BODY_BYTES,
  ReplyReader,
  type ReplySink,
} from '@stevedore/wire';
import { type Caller, checkStatus } from './caller.js';
import type { Deadline } from './deadline.js';
import { Elsewhere } from './errors.js';

/**
 * Bytes of a file, as a stream or in one piece. The number announced is the number
 * delivered; a connection that ends early is an error. A stream owns its connection
 * until the last byte; destroying it sooner closes the connection.
 */

export interface Download {
  /** Bytes that the stream yields. */
  readonly size: number;
  readonly stream: Readable;
}

const STREAM_BUFFER_BYTES = 128 * 1024;
const MAX_PLACE_BYTES = 1024;

/** Settles the deadline once the stream has ended. */
export function openDownload(
  caller: Caller,
  address: Address,
  request: DownloadRequest,
  deadline: Deadline,
  stepMs: number,
  flags = 0,
): Promise<Download> {
  const frame = encodeRequest(downloadFile, request, flags);
  return new Promise((resolve, reject) => {
    let stream: Readable | undefined;
    caller
      .withConnection(address, deadline, stepMs, async (connection) => {
        const sink = new StreamedReply(
          connection,
          request.length,
          (opened) => {
            stream = opened.stream;
            deadline.allowBytes(opened.size);
            resolve(opened);
          },
          deadline,
        );
        const progressMs = caller.progressMs(stepMs);
        await connection.exchange([frame], new ReplyReader(sink), deadline, progressMs);
        checkPlace(sink.status, sink.errorBody);
        checkStatus(connection, sink.status, deadline);
      })
      .then(
        () => {
          deadline.settle();
          stream?.push(null);
        },
        (error) => {
          if (!stream) return reject(error);
          deadline.settle();
          stream.destroy(error);
        },
      );
  });
}

/** At most `maxBytes` in memory; more is refused with `too_large` before any is read. */
export function downloadWhole(
  caller: Caller,
  address: Address,
  request: DownloadRequest,
  maxBytes: number,
  deadline: Deadline,
  stepMs: number,
  flags = 0,
): Promise<Buffer> {
  const frame = encodeRequest(downloadFile, request, flags);
  return caller.withConnection(address, deadline, stepMs, async (connection) => {
    const reply = new CollectedReply(maxBytes, (bytes) => {
      const tooLarge = `${bytes} bytes, ${maxBytes} are allowed`;
      const error = deadline.error('too_large', tooLarge, { address: address.text });
      connection.destroy(error);
      return error;
    });
    const sink: ReplySink = {
      head(header) {
        checkAnnounced(header, request.length);
        reply.head(header);
        if (header.status === Status.ok) deadline.allowBytes(header.bodyBytes);
      },
      chunk: (bytes) => reply.chunk(bytes),
    };
    const progressMs = caller.progressMs(stepMs);
    await connection.exchange([frame], new ReplyReader(sink), deadline, progressMs);
    checkPlace(reply.status, reply.body);
    checkStatus(connection, reply.status, deadline);
    return reply.body;
  });
}

function checkPlace(status: number, body: Buffer): void {
  if (status !== Status.elsewhere) return;
  const place = parseFileId(body.toString());
  if (place) throw new Elsewhere(place);
}

/** A stream of nothing. */
export function emptyDownload(): Download {
  const stream = new Readable({ read() {} });
  stream.push(null);
  return { size: 0, stream };
}

/** Hands the body of a successful reply to a stream and heeds its back-pressure. */
class StreamedReply implements ReplySink {
  readonly #connection: Connection;
  readonly #requested: number;
  readonly #onOpen: (download: Download) => void;
  readonly #deadline: Deadline;
  #stream: Readable | undefined;
  #status = 0;
  #left = 0;
  #errorBody = Buffer.alloc(0);

  constructor(
    connection: Connection,
    requested: number,
    onOpen: (download: Download) => void,
    deadline: Deadline,
  ) {
    this.#connection = connection;
    this.#requested = requested;
    this.#onOpen = onOpen;
    this.#deadline = deadline;
  }

  get status(): number {
    return this.#status;
  }

  /** What came with a status other than 0, as far as it may be the id of a file. */
  get errorBody(): Buffer {
    return this.#errorBody;
  }

  head(header: FrameHeader): void {
    checkAnnounced(header, this.#requested);
    this.#status = header.status;
    if (header.status !== Status.ok) {
      if (header.bodyBytes > MAX_ERROR_BODY_BYTES) {
        throw new ProtocolError(`an error reply announces ${header.bodyBytes} bytes`);
      }
      return;
    }
    this.#left = header.bodyBytes;
    this.#stream = new Readable({
      highWaterMark: STREAM_BUFFER_BYTES,
      read: () => {
        // Afterwards the connection may be another call's.
        if (this.#left > 0) this.#connection.resume();
      },
      destroy: (error, done) => {
        this.#abandon();
        done(error);
      },
    });
    // A consumer that listens for nothing must not bring the process down; every
    // way of consuming the stream still gets the error.
    this.#stream.on('error', () => {});
    this.#onOpen({ size: header.bodyBytes, stream: this.#stream });
  }

  chunk(bytes: Buffer): void {
    if (this.#status !== Status.ok) {
      if (this.#errorBody.length + bytes.length > MAX_PLACE_BYTES) return;
      this.#errorBody = Buffer.concat([this.#errorBody, bytes]);
      return;
    }
    this.#left -= bytes.length;
    if (this.#stream && !this.#stream.push(bytes) && this.#left > 0) this.#connection.pause();
  }

  /** Once the last byte is here the connection may serve another call already. */
  #abandon(): void {
    if (this.#left === 0) return;
    this.#connection.destroy(this.#deadline.error('aborted', 'the stream was destroyed'));
  }
}

function checkAnnounced(header: FrameHeader, requested: number): void {
  if (header.status === Status.ok && requested > 0 && header.bodyBytes > requested) {
    throw new ProtocolError(`${header.bodyBytes} bytes are announced, ${requested} were requested`);
  }
}
