import { Readable } from 'node:stream';
import { type FrameHeader, ProtocolError, parseFileId, Status } from '@stevedore/protocol';
import {
  type Address,
  type Connection,
  MAX_ERROR_BODY_BYTES,
  ReplyReader,
  type ReplySink,
} from '@stevedore/wire';
import { type Caller, checkStatus } from './caller.js';
import type { Deadline } from './deadline.js';
import { isLost, Redirect } from './errors.js';

/**
 * The body of a reply as a stream, with back-pressure. The stream owns its connection until the
 * last byte; destroying it earlier closes the connection. A connection lost before the end is an
 * error, unless the reply has no length.
 */

export interface Download {
  /** Bytes that the stream yields. */
  readonly size: number;
  readonly stream: Readable;
}

/** Refuses a header with ProtocolError. */
type CheckHeader = (header: FrameHeader) => void;

interface StreamRequest {
  readonly frame: Buffer;
  /** The reply may have no length and end with its connection. Default false. */
  readonly mayBeOpen?: boolean;
  readonly check: CheckHeader;
}

const STREAM_BUFFER_BYTES = 128 * 1024;
/** The deadline of a reply without length grows by steps of this size. */
const DEADLINE_STEP_BYTES = 2 ** 20;
const MAX_PLACE_BYTES = 1024;

/** Settles the deadline once the stream has ended. */
export function openStream(
  caller: Caller,
  address: Address,
  { frame, mayBeOpen = false, check }: StreamRequest,
  deadline: Deadline,
  stepMs: number,
): Promise<Download> {
  return new Promise((resolve, reject) => {
    let stream: Readable | undefined;
    const opened = (download: Download): void => {
      stream = download.stream;
      resolve(download);
    };
    caller
      .withConnection(address, deadline, stepMs, async (connection) => {
        const sink = new StreamedReply(connection, deadline, mayBeOpen, check, opened);
        const progressMs = caller.progressMs(stepMs);
        try {
          await connection.exchange([frame], new ReplyReader(sink), deadline, progressMs);
        } catch (error) {
          if (mayBeOpen && stream && isLost(error)) return;
          throw error;
        }
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

/** Throws the place if the bytes are at another id. */
export function checkPlace(status: number, body: Buffer): void {
  const place = status === Status.redirect ? parseFileId(body.toString()) : undefined;
  if (place) throw new Redirect(place);
}

class StreamedReply implements ReplySink {
  readonly mayBeOpen: boolean;
  readonly #connection: Connection;
  readonly #deadline: Deadline;
  readonly #check: CheckHeader;
  readonly #onOpen: (download: Download) => void;
  #stream: Readable | undefined;
  #status = 0;
  /** Remaining bytes; for a reply without length, more than can arrive. */
  #left = 0;
  #bytes = 0;
  #allowedBytes = 0;
  #errorBody = Buffer.alloc(0);

  constructor(
    connection: Connection,
    deadline: Deadline,
    mayBeOpen: boolean,
    check: CheckHeader,
    onOpen: (download: Download) => void,
  ) {
    this.#connection = connection;
    this.#deadline = deadline;
    this.mayBeOpen = mayBeOpen;
    this.#check = check;
    this.#onOpen = onOpen;
  }

  get status(): number {
    return this.#status;
  }

  /** The body of a reply with a status other than 0, as far as it may be a file id. */
  get errorBody(): Buffer {
    return this.#errorBody;
  }

  head(header: FrameHeader): void {
    this.#status = header.status;
    if (header.status !== Status.ok) {
      if (header.bodyBytes <= MAX_ERROR_BODY_BYTES) return;
      throw new ProtocolError(`an error reply announces ${header.bodyBytes} bytes`);
    }
    this.#check(header);
    this.#left = header.bodyBytes;
    if (!this.mayBeOpen) this.#allow(header.bodyBytes);
    this.#stream = new Readable({
      highWaterMark: STREAM_BUFFER_BYTES,
      read: () => {
        // From here on, another call may use the connection.
        if (this.#left > 0) this.#connection.resume();
      },
      destroy: (error, done) => {
        if (this.#left > 0) this.#abandon();
        done(error);
      },
    });
    // A consumer without an error listener must not crash the process; every way of consuming the
    // stream still gets the error.
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
    this.#bytes += bytes.length;
    if (this.#bytes > this.#allowedBytes) this.#allow(this.#bytes + DEADLINE_STEP_BYTES);
    if (this.#stream && !this.#stream.push(bytes) && this.#left > 0) this.#connection.pause();
  }

  #allow(bytes: number): void {
    this.#allowedBytes = bytes;
    this.#deadline.allowBytes(bytes);
  }

  #abandon(): void {
    this.#connection.destroy(this.#deadline.error('aborted', 'the stream was destroyed'));
  }
}
