import { Readable } from 'node:stream';
import type { Command, FrameHeader } from '@stevedore/protocol';
import { type Address, type CallPlan, ReceivedReply } from '@stevedore/wire';
import type { Deadline } from './deadline.js';
import type { Context } from './operations/context.js';

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

interface StreamRequest<Request> {
  readonly command: Command<Request, unknown>;
  readonly request: Request;
  /** The reply may have no length and end with its connection. Default false. */
  readonly mayBeOpen?: boolean;
  /** Refuses a header with ProtocolError. */
  readonly check: (header: FrameHeader) => void;
}

const STREAM_BUFFER_BYTES = 128 * 1024;
/** The deadline of a reply without length grows by steps of this size. */
const DEADLINE_STEP_BYTES = 2 ** 20;

/** The end of the stream settles the deadline. */
export function openStream<Request>(
  { caller }: Context,
  address: Address,
  { command, request, mayBeOpen = false, check }: StreamRequest<Request>,
  deadline: Deadline,
  plan: CallPlan,
): Promise<Download> {
  return new Promise((resolve, reject) => {
    let stream: ReplyStream | undefined;
    const reply = new ReceivedReply({
      mayBeOpen,
      onHead(header) {
        check(header);
        if (!mayBeOpen) deadline.allowBytes(header.bodyBytes);
        deadline.isStreaming = true;
        stream = new ReplyStream(header.bodyBytes, deadline, reply);
        resolve({ size: header.bodyBytes, stream });
      },
      onChunk: (bytes) => stream?.accept(bytes),
    });
    caller.receive(address, command, request, reply, deadline, plan).then(
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

class ReplyStream extends Readable {
  readonly #deadline: Deadline;
  readonly #reply: ReceivedReply;
  /** Remaining bytes; for a reply without length, more than can arrive. */
  #left: number;
  #bytes = 0;

  constructor(bytes: number, deadline: Deadline, reply: ReceivedReply) {
    super({ highWaterMark: STREAM_BUFFER_BYTES });
    this.#left = bytes;
    this.#deadline = deadline;
    this.#reply = reply;
    // A consumer without an error listener must not crash the process; every way of consuming the
    // stream still gets the error.
    this.on('error', () => {});
  }

  accept(bytes: Buffer): void {
    this.#left -= bytes.length;
    this.#bytes += bytes.length;
    this.#deadline.allowBytes(Math.ceil(this.#bytes / DEADLINE_STEP_BYTES) * DEADLINE_STEP_BYTES);
    if (!this.push(bytes) && this.#left > 0) this.#reply.connection?.pause();
  }

  override _read(): void {
    // After the last byte, another call may use the connection.
    if (this.#left > 0) this.#reply.connection?.resume();
  }

  override _destroy(cause: Error | null, done: (error?: Error | null) => void): void {
    if (this.#left > 0) {
      const error = this.#deadline.error('aborted', 'the stream was destroyed');
      this.#reply.connection?.destroy(error);
    }
    done(cause);
  }
}
