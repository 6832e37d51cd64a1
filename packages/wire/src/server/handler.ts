import { types } from 'node:util';
import {
  type Command,
  type FrameHeader,
  type IpWidth,
  type PayloadCommand,
  ProtocolError,
} from '@stevedore/protocol';

/**
 * One handler answers one command, and a daemon is a table of handlers. The connection reads the
 * bytes, so handlers see only values.
 */

/** Bytes of a file, sent as they are read. Those that are in memory are a Buffer instead. */
export interface StreamedReply {
  readonly bytes: number;
  /** True if `bytes` is not a real length: an empty chunk ends the answer and its connection. */
  readonly openEnded?: boolean;
  /** Reads from `position` as many bytes as suit one write, at least one. */
  read(position: number): Promise<Buffer> | Buffer;
  /** Called once, even if not everything was sent. */
  release(): void;
}

export type Reply = Buffer | StreamedReply;

export interface Context<Session> {
  readonly header: FrameHeader;
  readonly session: Session;
}

/** Handles a request that fits a buffer. */
export interface ControlHandler<Session> {
  readonly kind: 'control';
  readonly code: number;
  handle(body: Buffer, context: Context<Session>): Promise<Reply> | Reply;
}

/** Handles a request whose head is followed by the bytes of a file. */
export interface PayloadHandler<Session> {
  readonly kind: 'payload';
  readonly code: number;
  readonly minHeadBytes: number;
  headBytes(prefix: Buffer): number;
  /** Throws ProtocolError if the head does not match the bytes that follow it. */
  handle(head: Buffer, payload: Payload, context: Context<Session>): Promise<Reply>;
}

export type Handler<Session> = ControlHandler<Session> | PayloadHandler<Session>;

/** Makes a handler of decoded requests. `width` is that of address fields in the reply. */
export function control<Session, Request, Answer>(
  command: Command<Request, Answer>,
  answer: (request: Request, context: Context<Session>) => Promise<Answer> | Answer,
  width: () => IpWidth = () => 'narrow',
): ControlHandler<Session> {
  return {
    kind: 'control',
    code: command.code,
    handle(body, context) {
      const answered = answer(command.request.decode(body), context);
      const encode = (value: Answer): Buffer => command.reply.encode(value, width());
      return types.isPromise(answered) ? answered.then(encode) : encode(answered);
    },
  };
}

/** Makes a handler whose answer is the bytes of a file. */
export function streaming<Session, Request>(
  command: Command<Request, Buffer>,
  answer: (request: Request, context: Context<Session>) => Promise<Reply> | Reply,
): ControlHandler<Session> {
  return {
    kind: 'control',
    code: command.code,
    handle: (body, context) => answer(command.request.decode(body), context),
  };
}

/** Makes a handler of a request that brings a file. */
export function receiving<Session, Request, Answer>(
  command: PayloadCommand<Request, Answer>,
  answer: (request: Request, payload: Payload, context: Context<Session>) => Promise<Answer>,
): PayloadHandler<Session> {
  return {
    kind: 'payload',
    code: command.code,
    minHeadBytes: command.minHeadBytes,
    headBytes: (prefix) => command.headBytes(prefix),
    async handle(head, payload, context) {
      const request = command.request.decode(head);
      if (command.payloadBytes(request) !== payload.remaining) {
        throw new ProtocolError(
          `${command.name} announces ${command.payloadBytes(request)} bytes and brings ${payload.remaining}`,
        );
      }
      return command.reply.encode(await answer(request, payload, context));
    },
  };
}

/** Makes the table of a daemon. Throws TypeError if a command has two handlers. */
export function handlerTable<Session>(
  handlers: readonly Handler<Session>[],
): ReadonlyMap<number, Handler<Session>> {
  const table = new Map(handlers.map((handler) => [handler.code, handler]));
  if (table.size !== handlers.length) throw new TypeError('a command has two handlers');
  return table;
}

/** Source of the bytes, such as a connection. */
export interface PayloadSource {
  /** What has arrived, from 1 to `most` bytes; waits for the first. */
  some(most: number, timeoutMs: number): Promise<Buffer[]> | Buffer[];
}

/**
 * The raw bytes behind the head of a request. The handler reads them as fast as it can store them.
 * What it leaves unread never becomes a request.
 */
export class Payload {
  readonly #source: PayloadSource;
  readonly #timeoutMs: number;
  #remaining: number;

  constructor(source: PayloadSource, bytes: number, timeoutMs: number) {
    this.#source = source;
    this.#remaining = bytes;
    this.#timeoutMs = timeoutMs;
  }

  /** Unread bytes. */
  get remaining(): number {
    return this.#remaining;
  }

  /** The next bytes, at least one; empty when all have been read. A promise if none has arrived. */
  next(): Promise<Buffer[]> | Buffer[] {
    if (this.#remaining === 0) return [];
    const chunks = this.#source.some(this.#remaining, this.#timeoutMs);
    return types.isPromise(chunks) ? chunks.then((late) => this.#read(late)) : this.#read(chunks);
  }

  #read(chunks: Buffer[]): Buffer[] {
    for (const chunk of chunks) this.#remaining -= chunk.length;
    return chunks;
  }

  /** Reads and drops the rest. */
  async drain(): Promise<void> {
    while (this.#remaining > 0) await this.next();
  }
}
