import {
  type Command,
  type FrameHeader,
  type IpWidth,
  type PayloadCommand,
  ProtocolError,
} from '@stevedore/protocol';

/**
 * One handler answers one command. A daemon is a table of them; the connection
 * reads the bytes, so that handlers see values only.
 */

/** Bytes of a file that are sent as they are read. */
export interface StreamedReply {
  readonly bytes: number;
  /** True if `bytes` is no length: an empty chunk ends the answer, and its connection with it. */
  readonly openEnded?: boolean;
  /** The bytes from `position` on, as many as suit one write; at least one. */
  read(position: number): Promise<Buffer>;
  /** Called once, whether all was sent or not. */
  release(): void;
}

export type Reply = Buffer | StreamedReply;

export interface Context<Session> {
  readonly header: FrameHeader;
  readonly session: Session;
}

/** A request that fits a buffer. */
export interface ControlHandler<Session> {
  readonly kind: 'control';
  readonly code: number;
  handle(body: Buffer, context: Context<Session>): Promise<Reply> | Reply;
}

/** A request whose head is followed by the bytes of a file. */
export interface PayloadHandler<Session> {
  readonly kind: 'payload';
  readonly code: number;
  readonly minHeadBytes: number;
  headBytes(prefix: Buffer): number;
  /** Checks the head against the bytes that follow it; throws ProtocolError. */
  handle(head: Buffer, payload: Payload, context: Context<Session>): Promise<Reply>;
}

export type Handler<Session> = ControlHandler<Session> | PayloadHandler<Session>;

/** A handler of decoded requests. `width` is that of address fields in the reply. */
export function control<Session, Request, Answer>(
  command: Command<Request, Answer>,
  answer: (request: Request, context: Context<Session>) => Promise<Answer> | Answer,
  width: () => IpWidth = () => 'narrow',
): ControlHandler<Session> {
  return {
    kind: 'control',
    code: command.code,
    handle: async (body, context) =>
      command.reply.encode(await answer(command.request.decode(body), context), width()),
  };
}

/** A handler whose answer is the bytes of a file. */
export function streaming<Session, Request>(
  command: Command<Request, Buffer>,
  answer: (request: Request, context: Context<Session>) => Promise<Reply>,
): ControlHandler<Session> {
  return {
    kind: 'control',
    code: command.code,
    handle: (body, context) => answer(command.request.decode(body), context),
  };
}

/** A handler of a request that brings a file. */
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

/** The table of a daemon. Two handlers of one command are a mistake of the daemon's. */
export function handlerTable<Session>(
  handlers: readonly Handler<Session>[],
): ReadonlyMap<number, Handler<Session>> {
  const table = new Map(handlers.map((handler) => [handler.code, handler]));
  if (table.size !== handlers.length) throw new TypeError('a command has two handlers');
  return table;
}

/** Where the bytes come from, such as a connection. */
export interface PayloadSource {
  /** What has arrived, from 1 to `most` bytes; waits for the first of them. */
  some(most: number, timeoutMs: number): Promise<Buffer[]>;
}

/**
 * The raw bytes behind the head of a request. The handler of the request reads
 * them as fast as it can store them; what it leaves unread never becomes a request.
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

  /** Bytes not read yet. */
  get remaining(): number {
    return this.#remaining;
  }

  /** The next bytes, at least one; empty when all have been read. */
  async next(): Promise<Buffer[]> {
    if (this.#remaining === 0) return [];
    const chunks = await this.#source.some(this.#remaining, this.#timeoutMs);
    for (const chunk of chunks) this.#remaining -= chunk.length;
    return chunks;
  }

  /** Reads and drops the rest. */
  async drain(): Promise<void> {
    while (this.#remaining > 0) await this.next();
  }
}
