import {
  decodeHeader,
  type FrameHeader,
  HEADER_BYTES,
  ProtocolError,
  REPLY_COMMAND,
} from '@stevedore/protocol';

/**
 * Parses the bytes of one reply, however they are split, into header and body. Throws ProtocolError
 * if they are not exactly one reply; do not use the connection after that.
 */

export interface ReplySink {
  /** True if the reply may have no length and end with its connection. */
  readonly mayBeOpen?: boolean;
  /** Called once, before the body. May throw to refuse the reply. */
  head(header: FrameHeader): void;
  /** The body in order, never more than the header announced. */
  chunk(bytes: Buffer): void;
}

export class ReplyReader {
  readonly #sink: ReplySink;
  #head: Buffer | undefined;
  #headBytes = 0;
  #started = false;
  #left = 0;
  readonly #endsAtError: boolean;
  #refused = false;

  /**
   * With `endsAtError`, bytes after a reply with an error status are dropped: servers before 6.15
   * take the rest of a refused body for requests and answer those.
   */
  constructor(sink: ReplySink, endsAtError = false) {
    this.#sink = sink;
    this.#endsAtError = endsAtError;
  }

  /** Takes received bytes; true once the reply is complete. */
  push(bytes: Buffer): boolean {
    let at = 0;
    if (!this.#started) {
      const header = this.#takeHeader(bytes);
      if (!header) return false;
      at = header.taken;
    }
    let count = bytes.length - at;
    if (count > this.#left && this.#refused && this.#endsAtError) count = this.#left;
    if (count > this.#left) {
      throw new ProtocolError(`a reply is followed by ${count - this.#left} more bytes`);
    }
    this.#left -= count;
    if (count > 0) this.#sink.chunk(bytes.subarray(at, at + count));
    return this.#left === 0;
  }

  #takeHeader(bytes: Buffer): { taken: number } | undefined {
    if (this.#headBytes === 0 && bytes.length >= HEADER_BYTES) {
      this.#start(bytes);
      return { taken: HEADER_BYTES };
    }
    this.#head ??= Buffer.alloc(HEADER_BYTES);
    const taken = bytes.copy(this.#head, this.#headBytes);
    this.#headBytes += taken;
    if (this.#headBytes < HEADER_BYTES) return undefined;
    this.#start(this.#head);
    return { taken };
  }

  #start(bytes: Buffer): void {
    const header = decodeHeader(bytes, this.#sink.mayBeOpen);
    if (header.command !== REPLY_COMMAND) {
      throw new ProtocolError(`a reply has command ${header.command}`);
    }
    this.#started = true;
    this.#left = header.bodyBytes;
    this.#refused = header.status !== 0;
    this.#sink.head(header);
  }
}

/** Keeps a whole reply in memory. */
export class CollectedReply implements ReplySink {
  readonly #maxBytes: number;
  readonly #tooLarge: (bytes: number) => Error;
  #header: FrameHeader | undefined;
  #body: Buffer = Buffer.alloc(0);
  #filled = 0;

  /** A successful reply above `maxBytes` is refused with the error that `tooLarge` makes. */
  constructor(maxBytes: number, tooLarge = refuseLarge) {
    this.#maxBytes = maxBytes;
    this.#tooLarge = tooLarge;
  }

  get status(): number {
    if (!this.#header) throw new Error('the reply is not there yet');
    return this.#header.status;
  }

  get body(): Buffer {
    return this.#body;
  }

  head(header: FrameHeader): void {
    const limit = header.status === 0 ? this.#maxBytes : MAX_ERROR_BODY_BYTES;
    if (header.bodyBytes > limit) {
      throw header.status === 0 ? this.#tooLarge(header.bodyBytes) : refuseLarge(header.bodyBytes);
    }
    this.#header = header;
  }

  chunk(bytes: Buffer): void {
    const total = this.#header?.bodyBytes ?? 0;
    if (this.#filled === 0 && bytes.length === total) {
      this.#body = bytes;
    } else {
      if (this.#filled === 0) this.#body = Buffer.allocUnsafe(total);
      bytes.copy(this.#body, this.#filled);
    }
    this.#filled += bytes.length;
  }
}

/** Limit for replies without a file; a list of 32 servers is the longest. */
export const MAX_SMALL_BODY_BYTES = 64 * 1024;
/** Limit for the body of an error, which may repeat the request's. */
export const MAX_ERROR_BODY_BYTES = 1024 * 1024;

function refuseLarge(bytes: number): Error {
  return new ProtocolError(`a reply announces ${bytes} bytes`);
}

/**
 * The call on whose behalf a request is made. It reports its end, and makes the errors of its
 * requests, so that each client has its own error class.
 */
export interface Call {
  /** Throws the error that ended the call, if it has ended. */
  throwIfEnded(): void;
  /** Sets the function to call when the call ends; one at a time. */
  watch(watcher: (error: Error) => void): void;
  unwatch(): void;
  error(code: FailureCode, message: string, details?: FailureDetails): Error;
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
