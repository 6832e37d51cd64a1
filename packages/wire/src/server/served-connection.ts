import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { types } from 'node:util';
import {
  decodeHeader,
  encodeHeader,
  encodeReply,
  type FrameHeader,
  HEADER_BYTES,
  ProtocolError,
  quit,
  REPLY_COMMAND,
  Status,
} from '@stevedore/protocol';
import { asError, ConnectionError, isExpected, StatusError, statusOf } from '../errors.js';
import { type Guard, Visitor } from './guard.js';
import {
  type Context,
  type ControlHandler,
  type Handler,
  Payload,
  type PayloadHandler,
  type Reply,
  type StreamedReply,
} from './handler.js';
import type { ConnectionLimits } from './limits.js';
import { ByteSource, quickAck, SocketSink } from './socket-bytes.js';

/**
 * One accepted connection: reads a request, lets its handler answer it, writes the answer, one
 * request at a time. What has arrived and needs no waiting is answered in the same turn, up to
 * MAX_UNWAITED requests. The content of a refused upload is read and dropped, or the connection
 * closed: it never becomes a request.
 */

export interface ConnectionRules<Session> {
  readonly handlers: ReadonlyMap<number, Handler<Session>>;
  readonly limits: ConnectionLimits;
  /** True for a storage: it closes a connection after an answer of status 22. */
  readonly closesAfterInvalid: boolean;
  /** Authenticates connections; without a guard everybody is served. */
  readonly guard?: Guard | undefined;
  readonly onError: (error: Error) => void;
}

/** Called when a connection waits for a request, and when a header has arrived. */
export interface ConnectionWatch<Session> {
  idle(connection: ServedConnection<Session>): void;
  busy(connection: ServedConnection<Session>): void;
}

/** Longest body of a request without a file, and longest head of one with a file. */
const MAX_CONTROL_BODY_BYTES = 64 * 1024;
/** Received bytes held per connection before its sender has to wait. */
const RECEIVE_BUFFER_BYTES = 256 * 1024;
/** Most bytes of a refused upload to read and drop to keep its connection. */
const MAX_DRAIN_BYTES = 1024 * 1024;
/** Requests that a client has sent ahead and that are answered before others get their turn. */
const MAX_UNWAITED = 64;
/** Bytes of an answer per write. */
const WRITE_BYTES = 256 * 1024;
/** Copying a shorter answer behind its header takes less than sending it in two pieces. */
const COPIED_BYTES = 4 * 1024;
/** Time and bytes allowed after the last answer, so that the peer can read it. */
const LINGER_MS = 500;
const LINGER_BYTES = 4 * 1024 * 1024;
/** Longest body of an authentication command; nonces and proofs are shorter. */
const MAX_AUTHENTICATION_BYTES = 64;

/** Whether the connection stays open; a promise only if something has to be waited for. */
type Open = boolean | Promise<boolean>;

export class ServedConnection<Session> {
  readonly #socket: Socket;
  readonly #source: ByteSource;
  readonly #sink: SocketSink;
  readonly #rules: ConnectionRules<Session>;
  readonly #session: Session;
  readonly #visitor: Visitor | undefined;
  readonly #watch: ConnectionWatch<Session>;
  /** Between two requests, when the connection can be closed at any time. */
  #idle = true;
  #closing = false;

  constructor(
    socket: Socket,
    session: Session,
    rules: ConnectionRules<Session>,
    peerAddress: string,
    watch: ConnectionWatch<Session>,
  ) {
    this.#watch = watch;
    this.#socket = socket;
    this.#session = session;
    this.#rules = rules;
    this.#source = new ByteSource(socket, RECEIVE_BUFFER_BYTES);
    this.#sink = new SocketSink(socket, rules.limits.requestTimeoutMs);
    if (rules.guard) this.#visitor = new Visitor(rules.guard, peerAddress, () => this.cut());
  }

  /** Serves requests until one side is done. Never throws. */
  async serve(): Promise<void> {
    const source = this.#source;
    const { requestTimeoutMs } = this.#rules.limits;
    const deadline = performance.now() + requestTimeoutMs;
    let unwaited = 0;
    try {
      for (let isFirst = true; !this.#closing; isFirst = false) {
        this.#idle = true;
        this.#watch.idle(this);
        unwaited = source.queuedBytes === 0 ? 0 : unwaited + 1;
        if (unwaited === 0) await source.ready(isFirst ? requestTimeoutMs : undefined);
        else if (unwaited % MAX_UNWAITED === 0) await nextTurn();
        if (source.queuedBytes === 0) break;
        this.#idle = false;
        const headTimeMs = isFirst ? Math.max(deadline - performance.now(), 1) : requestTimeoutMs;
        const isOpen = this.#serveOne(headTimeMs);
        if (!(typeof isOpen === 'boolean' ? isOpen : await isOpen)) break;
      }
      if (!this.#socket.destroyed) await this.#linger();
    } catch (error) {
      if (!(error instanceof ConnectionError)) this.#rules.onError(asError(error));
    } finally {
      this.#visitor?.leave();
      this.#socket.destroy();
    }
  }

  /** Accepts no further request; finishes one in flight. */
  finish(): void {
    this.#closing = true;
    if (this.#idle) this.#socket.destroy();
  }

  /** Closes the connection now. */
  cut(): void {
    this.#socket.destroy();
  }

  /** False if the connection is to be closed. */
  #serveOne(headTimeMs: number): Open {
    const bytes = this.#source.arrived(HEADER_BYTES);
    if (bytes) return this.#serveRequest(bytes);
    return this.#source.exactly(HEADER_BYTES, headTimeMs).then((late) => this.#serveRequest(late));
  }

  #serveRequest(bytes: Buffer): Open {
    // Not earlier: a connection with half a header may still be displaced.
    this.#watch.busy(this);
    const header = readHeader(bytes);
    if (!header || header.command === quit.code) return false;

    const visitor = this.#visitor;
    if (visitor && Visitor.isAuthentication(header.command)) {
      return this.#authenticate(visitor, header);
    }
    if (visitor && !visitor.allows(header.command)) return this.#close(Status.accessDenied);

    const handler = this.#rules.handlers.get(header.command);
    if (handler?.kind === 'payload') return this.#receive(handler, header);
    if (header.bodyBytes > MAX_CONTROL_BODY_BYTES) return this.#close(Status.invalid);
    const body = this.#source.arrived(header.bodyBytes);
    if (body) return this.#handle(handler, header, body);
    return this.#body(header.bodyBytes).then((late) => this.#handle(handler, header, late));
  }

  /** Answers with the status and closes the connection. */
  async #close(status: number): Promise<false> {
    await this.#sink.write(encodeReply(status));
    return false;
  }

  /** Returns false, which closes the connection, if the first proof fails. */
  async #authenticate(visitor: Visitor, header: FrameHeader): Promise<boolean> {
    const isShort = header.bodyBytes <= MAX_AUTHENTICATION_BYTES;
    const bytes = isShort ? header.bodyBytes : 0;
    const body = this.#source.arrived(bytes) ?? (await this.#body(bytes));
    try {
      const reply = visitor.answer(header.command, body);
      await this.#sink.write(encodeReply(Status.ok, reply));
      return true;
    } catch (error) {
      if (!isExpected(error)) throw error;
      await this.#sink.write(encodeReply(statusOf(error)));
      return false;
    }
  }

  /** For a body that has not arrived. */
  #body(bytes: number): Promise<Buffer> {
    quickAck(this.#socket);
    return this.#source.exactly(bytes, this.#rules.limits.requestTimeoutMs);
  }

  async #receive(handler: PayloadHandler<Session>, header: FrameHeader): Promise<boolean> {
    const { requestTimeoutMs } = this.#rules.limits;
    const prefixBytes = Math.min(header.bodyBytes, handler.minHeadBytes);
    const source = this.#source;
    const prefix = source.arrived(prefixBytes) ?? (await this.#body(prefixBytes));
    const headBytes = prefix.length < handler.minHeadBytes ? -1 : headBytesOf(handler, prefix);
    if (headBytes < 0 || headBytes > Math.min(header.bodyBytes, MAX_CONTROL_BODY_BYTES)) {
      return this.#close(Status.invalid);
    }
    const restBytes = headBytes - prefix.length;
    const rest = source.arrived(restBytes) ?? (await this.#body(restBytes));
    const head = rest.length === 0 ? prefix : Buffer.concat([prefix, rest]);
    const payload = new Payload(source, header.bodyBytes - headBytes, requestTimeoutMs);
    // If some content has arrived, the sender is not waiting for an acknowledgement.
    if (payload.remaining > 0 && source.queuedBytes === 0) quickAck(this.#socket);
    const open = await this.#answerTo(handler.handle(head, payload, this.#context(header)));
    if (!open || payload.remaining > MAX_DRAIN_BYTES) return false;
    await payload.drain();
    return true;
  }

  #context(header: FrameHeader): Context<Session> {
    return { header, session: this.#session };
  }

  #handle(handler: ControlHandler<Session> | undefined, header: FrameHeader, body: Buffer): Open {
    try {
      if (!handler) throw new StatusError(Status.invalid, `unknown command ${header.command}`);
      const reply = handler.handle(body, this.#context(header));
      return types.isPromise(reply) ? this.#answerTo(reply) : this.#answer(reply);
    } catch (error) {
      return this.#refuse(error);
    }
  }

  async #answerTo(handled: Promise<Reply>): Promise<boolean> {
    let reply: Reply;
    try {
      reply = await handled;
    } catch (error) {
      return this.#refuse(error);
    }
    return this.#answer(reply);
  }

  /** Answers with the status of the error. */
  async #refuse(error: unknown): Promise<boolean> {
    if (error instanceof ConnectionError) throw error;
    if (!isExpected(error)) this.#rules.onError(asError(error));
    const status = statusOf(error);
    const body = error instanceof StatusError ? error.body : undefined;
    await this.#sink.write(encodeReply(status, body));
    return !(this.#rules.closesAfterInvalid && status === Status.invalid);
  }

  #answer(reply: Reply): Open {
    if (!Buffer.isBuffer(reply)) return this.#stream(reply);
    if (reply.length > WRITE_BYTES) return this.#stream(inPieces(reply));
    const { length } = reply;
    const sent =
      length <= COPIED_BYTES
        ? this.#sink.write(encodeReply(Status.ok, reply))
        : this.#sink.write(replyHeader(length), reply);
    return sent ? sent.then(() => true) : true;
  }

  async #stream(reply: StreamedReply): Promise<boolean> {
    try {
      let sent = 0;
      while (sent < reply.bytes) {
        let chunk: Buffer;
        try {
          chunk = await reply.read(sent);
        } catch (error) {
          // Before the header is sent, an error can be answered with a status; after it, only by
          // closing.
          if (!isExpected(error)) this.#rules.onError(asError(error));
          if (sent === 0) await this.#sink.write(encodeReply(statusOf(error)));
          throw new ConnectionError('connection_lost', 'a file could not be read');
        }
        if (sent === 0) await this.#sink.write(replyHeader(reply.bytes), chunk);
        else await this.#sink.write(chunk);
        if (chunk.length === 0 && reply.openEnded) return false;
        sent += chunk.length;
      }
      return true;
    } finally {
      reply.release();
    }
  }

  /**
   * Ends the sending side and briefly drops what still arrives. Closing with unread bytes would
   * reset the connection, and the peer could lose an answer that it has not read.
   */
  async #linger(): Promise<void> {
    this.#socket.end();
    const deadline = performance.now() + LINGER_MS;
    let dropped = 0;
    while (dropped < LINGER_BYTES && !this.#source.finished) {
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) return;
      for (const chunk of await this.#source.some(LINGER_BYTES, leftMs)) dropped += chunk.length;
    }
  }
}

/** As many bytes of it at a time as a slow peer can read in the time of a request. */
function inPieces(content: Buffer): StreamedReply {
  return {
    bytes: content.length,
    read: (position) => content.subarray(position, position + WRITE_BYTES),
    release: () => {},
  };
}

function replyHeader(bodyBytes: number): Buffer {
  return encodeHeader({ bodyBytes, command: REPLY_COMMAND, status: Status.ok });
}

/** Length of the head; -1 if the prefix is invalid. */
function headBytesOf<Session>(handler: PayloadHandler<Session>, prefix: Buffer): number {
  try {
    return handler.headBytes(prefix);
  } catch (error) {
    if (error instanceof ProtocolError) return -1;
    throw error;
  }
}

function readHeader(bytes: Buffer): FrameHeader | undefined {
  try {
    return decodeHeader(bytes);
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}
