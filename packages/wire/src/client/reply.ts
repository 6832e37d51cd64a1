import {
  decodeHeader,
  type FrameHeader,
  HEADER_BYTES,
  ProtocolError,
  REPLY_COMMAND,
  Status,
} from '@stevedore/protocol';

/**
 * One reply, received into the buffer that is handed out. A room has a byte more than the reply can
 * fill: it shows a reply that goes on, and saves a read that finds nothing.
 */

/** Limit for replies without a file; a list of 32 servers is the longest. */
const MAX_SMALL_BODY_BYTES = 64 * 1024;
/** Limit for the body of an error, which may repeat the request's. */
const MAX_ERROR_BODY_BYTES = 1024 * 1024;
/** The room of a connection for the start of a reply: most replies fit, and no file. */
export const FIRST_ROOM_BYTES = 128;

const CHUNK_BYTES = 64 * 1024;
const LEAST_ROOM_BYTES = 4 * 1024;
const EMPTY = Buffer.alloc(0);
const WHOLE: ReplyPlan = {};

export interface ReplyPlan {
  /** Longest successful reply. Default 64 KiB. */
  readonly maxBytes?: number | undefined;
  /** The reply may have no length and end with its connection. */
  readonly mayBeOpen?: boolean;
  /** Called once, before the body of a successful reply. May throw to refuse it. */
  readonly onHead?: (header: FrameHeader) => void;
  /** Gets the body of a successful reply in pieces, in order; otherwise `body` is all of it. */
  readonly onChunk?: (bytes: Buffer) => void;
}

/** What the receiver of a streamed reply may do with its connection. */
interface Flow {
  /** Stops reading while the receiver is behind. */
  pause(): void;
  resume(): void;
  destroy(error: unknown): void;
}

export class ReceivedReply {
  /** That of the header; -1 before it. */
  status = -1;
  body: Buffer = EMPTY;
  /**
   * More bytes followed a refusal: servers before 6.15 take the rest of a refused body for requests
   * and answer those.
   */
  isFollowed = false;
  /** Where the next bytes go; undefined: into any room of at least 11 bytes. */
  room: Buffer | undefined;
  /** The connection that it comes over. */
  connection: Flow | undefined;
  readonly #plan: ReplyPlan;
  #first: Buffer | undefined;
  /** Bytes of the header at first, then of the body. */
  #arrived = 0;
  #total = 0;
  #isStreamed = false;
  /** The room for the next pieces of a streamed body. */
  #chunk: Buffer = EMPTY;

  constructor(plan: ReplyPlan = WHOLE) {
    this.#plan = plan;
  }

  /** True if the end of the connection ends it too. */
  get isOpen(): boolean {
    return this.status === Status.ok && this.#plan.mayBeOpen === true;
  }

  /**
   * Takes bytes that were received into `room`; true once the reply is complete. Throws
   * ProtocolError if they are not exactly one reply.
   */
  took(room: Buffer, count: number): boolean {
    this.#arrived += count;
    if (this.status === -1) {
      this.#first ??= room;
      if (this.#arrived < HEADER_BYTES) {
        this.room = this.#first.subarray(this.#arrived);
        return false;
      }
      this.#arrived -= HEADER_BYTES;
      this.#begin(this.#first);
    } else if (this.#isStreamed) {
      this.#chunk = room.subarray(count);
      if (this.#arrived <= this.#total) this.#plan.onChunk?.(room.subarray(0, count));
    }
    const left = this.#total - this.#arrived;
    this.isFollowed = left < 0;
    if (this.isFollowed && this.status === Status.ok) {
      throw new ProtocolError('a reply is followed by more bytes');
    }
    if (left <= 0) {
      this.body = this.body.subarray(0, this.#total);
      return true;
    }
    if (this.#isStreamed) this.#makeRoom(left);
    this.room = this.#isStreamed ? this.#chunk : this.body.subarray(this.#arrived);
    return false;
  }

  #begin(first: Buffer): void {
    const header = decodeHeader(first, this.#plan.mayBeOpen);
    const { command, status, bodyBytes } = header;
    const isOk = status === Status.ok;
    if (command !== REPLY_COMMAND) throw new ProtocolError(`a reply has command ${command}`);
    if (isOk) this.#plan.onHead?.(header);
    this.#isStreamed = isOk && this.#plan.onChunk !== undefined;
    const maxBytes = isOk ? (this.#plan.maxBytes ?? MAX_SMALL_BODY_BYTES) : MAX_ERROR_BODY_BYTES;
    if (bodyBytes > maxBytes && !this.#isStreamed) {
      throw new ProtocolError(`a reply announces ${bodyBytes} bytes`);
    }
    this.status = status;
    this.#total = bodyBytes;
    if (this.#arrived === 0 && this.#isStreamed) return;
    const early = first.subarray(HEADER_BYTES, HEADER_BYTES + Math.min(this.#arrived, bodyBytes));
    if (this.#isStreamed) {
      this.#plan.onChunk?.(Buffer.from(early));
    } else {
      this.body = Buffer.allocUnsafe(bodyBytes + 1);
      early.copy(this.body);
    }
  }

  #makeRoom(left: number): void {
    if (this.#chunk.length > Math.min(left, LEAST_ROOM_BYTES)) return;
    this.#chunk = Buffer.allocUnsafeSlow(Math.min(left + 1, CHUNK_BYTES));
  }
}

/**
 * The call on whose behalf a request is made. It reports its end, and makes the errors of its
 * requests, so that each client has its own error class.
 */
export interface Call {
  /** What messages of the caller's channel say about it. */
  readonly operation?: string;
  readonly fileId?: string | undefined;
  /** Throws the error that ended the call, if it has ended. */
  throwIfEnded(): void;
  /** Sets the function to call when the call ends; one at a time. */
  watch(watcher: (error: Error) => void): void;
  unwatch(): void;
  error(code: FailureCode, message: string, details?: FailureDetails): Error;
  /** The error of an answer with another status than 0. */
  refused(command: string, status: number, body: Buffer, address: string): Error;
}

export type FailureCode =
  | 'access_denied'
  | 'bad_reply'
  | 'closed'
  | 'connect_failed'
  | 'connection_lost'
  | 'invalid_argument'
  | 'length_mismatch'
  | 'pool_exhausted'
  | 'timeout';

export interface FailureDetails {
  /** `host:port` of the server concerned. */
  readonly address?: string;
  readonly cause?: unknown;
}
