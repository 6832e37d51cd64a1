import { type Command, ProtocolError, quit, Status } from '@stevedore/protocol';
import type { Answer, Misbehaviour } from './misbehaviour.js';
import { type Received, replyFrame, ScriptedServer } from './scripted-server.js';

/**
 * One server of a memory cluster: it answers each command by its handler, unless a
 * test has put something else in its place.
 */

/** Answers a request whose body is `body`. Throws ProtocolError with the status of a refusal. */
export type Handler = (body: Buffer, flags: number) => Buffer | LastReply;

/** A reply that is no frame, and with which the connection ends. */
export interface LastReply {
  readonly bytes: Buffer;
}

export type Handlers = ReadonlyMap<number, Handler>;

/** A handler between the values of a command instead of its bytes. */
export function handle<Request, Reply>(
  command: Command<Request, Reply>,
  answer: (request: Request, flags: number) => Reply,
  encode: (reply: Reply) => Buffer = (reply) => command.reply.encode(reply),
): [number, Handler] {
  return [command.code, (body, flags) => encode(answer(command.request.decode(body), flags))];
}

export class MemoryNode {
  /** Answers in place of the good ones, by command. */
  readonly answers = new Map<number, Answer>();
  readonly #server: ScriptedServer;
  readonly #handlers: Handlers;
  readonly #counts = new Map<number, number>();

  private constructor(server: ScriptedServer, handlers: Handlers) {
    this.#server = server;
    this.#handlers = handlers;
    server.handler = { onRequest: (received) => this.#onRequest(received) };
  }

  static async listen(host: string, handlers: Handlers): Promise<MemoryNode> {
    const server = await ScriptedServer.listen({ onRequest() {} }, host);
    return new MemoryNode(server, handlers);
  }

  /** `host:port` */
  get address(): string {
    return this.#server.address;
  }

  get port(): number {
    return this.#server.port;
  }

  /** Connections that are open now. */
  get connections(): number {
    return this.#server.sockets.size;
  }

  /** Connections accepted so far. */
  get accepted(): number {
    return this.#server.accepted;
  }

  /** Requests of a command so far. */
  count(command: number): number {
    return this.#counts.get(command) ?? 0;
  }

  /** Goes wrong in this way from now on, whenever it gets the command. */
  misbehave(command: number, how: Misbehaviour | Answer): void {
    this.answers.set(command, typeof how === 'function' ? how : how.answer);
  }

  /** Answers as it should again. */
  behave(): void {
    this.answers.clear();
  }

  /** Refuses connections and drops those it has, as a server that died. */
  close(): Promise<void> {
    return this.#server.close();
  }

  #onRequest(received: Received): void {
    const { command, socket } = received;
    this.#counts.set(command, this.count(command) + 1);
    if (command === quit.code) {
      socket.end();
      return;
    }
    const good = this.#reply(received);
    const bytes = Buffer.isBuffer(good) ? good : good.bytes;
    const answer = this.answers.get(command);
    if (answer) answer(received, bytes);
    else if (bytes === good) socket.write(bytes);
    else socket.end(bytes);
  }

  #reply({ command, body, flags }: Received): Buffer | LastReply {
    const handler = this.#handlers.get(command);
    if (!handler) return replyFrame(Status.invalid);
    try {
      const reply = handler(body, flags);
      return Buffer.isBuffer(reply) ? replyFrame(Status.ok, reply) : reply;
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      return replyFrame(error.status);
    }
  }
}
