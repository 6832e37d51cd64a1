import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Command, ProtocolError, quit, Status } from '@stevedore/protocol';
import { type Received, replyFrame, ScriptedServer } from './scripted-server.js';

/** One server of a memory cluster. Each command has a handler, which a test can replace. */

/** Answers a request whose body is `body`. Throws ProtocolError with the status of a refusal. */
export type Handler = (body: Buffer, flags: number) => Buffer | LastReply;

/** A reply without a frame, which ends the connection. */
export interface LastReply {
  readonly bytes: Buffer;
}

export type Handlers = ReadonlyMap<number, Handler>;

/** A handler of decoded values instead of bytes. */
export function handle<Request, Reply>(
  command: Command<Request, Reply>,
  answer: (request: Request, flags: number) => Reply,
  encode: (reply: Reply) => Buffer = (reply) => command.reply.encode(reply),
): [number, Handler] {
  return [command.code, (body, flags) => encode(answer(command.request.decode(body), flags))];
}

export class MemoryNode {
  /** Replacements of handlers, by command. */
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

  /** Misbehaves in this way for this command from now on. */
  misbehave(command: number, how: Misbehaviour | Answer): void {
    this.answers.set(command, typeof how === 'function' ? how : how.answer);
  }

  /** Behaves again. */
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

/** Ways in which a server can misbehave. */

/** Answers a request; `good` is the correct reply. */
export type Answer = (received: Received, good: Buffer) => void;

export interface Misbehaviour {
  /** What the server does, completing "a server that ..". */
  readonly name: string;
  readonly answer: Answer;
  /** Codes with which a client may report it. */
  readonly codes: readonly string[];
}

const LOST = ['connection_lost'];
const BAD = ['bad_reply'];

export const stall: Misbehaviour = { name: 'says nothing', answer() {}, codes: ['timeout'] };

export const reset: Misbehaviour = {
  name: 'resets the connection',
  answer: ({ socket }) => void socket.resetAndDestroy(),
  codes: LOST,
};

export const fin: Misbehaviour = {
  name: 'closes the connection',
  answer: ({ socket }) => void socket.end(),
  codes: LOST,
};

export const shortReply: Misbehaviour = {
  name: 'closes within the header',
  answer: ({ socket }, good) => void socket.end(good.subarray(0, 7)),
  codes: LOST,
};

export const longReply: Misbehaviour = {
  name: 'sends more than it announced',
  answer: ({ socket }, good) => void socket.write(Buffer.concat([good, Buffer.from('more')])),
  codes: BAD,
};

export const wrongCommand: Misbehaviour = {
  name: 'has the wrong command byte',
  answer: ({ socket }, good) => void socket.write(patched(good, 8, 101)),
  codes: BAD,
};

export const garbage: Misbehaviour = {
  name: 'sends text of another protocol',
  answer: ({ socket }) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
  codes: BAD,
};

/** Behaviours that fit every command. */
export const MISBEHAVIOURS: readonly Misbehaviour[] = [
  stall,
  reset,
  fin,
  shortReply,
  longReply,
  wrongCommand,
  garbage,
  {
    name: 'stalls within the header',
    answer: ({ socket }, good) => void socket.write(good.subarray(0, 7)),
    codes: ['timeout'],
  },
  {
    name: 'announces a negative length',
    answer: ({ socket }, good) => void socket.write(patched(good, 0, 0xff)),
    codes: BAD,
  },
  {
    name: 'announces an absurd length',
    answer: ({ socket }, good) => void socket.write(patched(good, 0, 0x7f)),
    codes: BAD,
  },
  {
    name: 'announces a byte more than it sends, then closes',
    answer: ({ socket }, good) => void socket.end(lengthened(good, 1)),
    codes: ['connection_lost', 'bad_reply'],
  },
  {
    name: 'announces a byte more than it sends, then stalls',
    answer: ({ socket }, good) => void socket.write(lengthened(good, 1)),
    codes: ['timeout', 'bad_reply'],
  },
];

/** The correct reply in two pieces, cut at `at`, the second in a later turn. */
export function splitAt(at: number): Answer {
  return ({ socket }, good) => {
    socket.write(good.subarray(0, at));
    void nextTurn().then(() => socket.write(good.subarray(at)));
  };
}

/** An error status instead of the correct reply. */
export function refuse(status: number): Answer {
  return ({ socket }) => void socket.write(replyFrame(status));
}

/** The correct reply, one byte at a time. */
export const byteByByte: Answer = async ({ socket }, good) => {
  for (const byte of good) {
    socket.write(Buffer.from([byte]));
    await nextTurn();
  }
};

function patched(good: Buffer, at: number, value: number): Buffer {
  const copy = Buffer.from(good);
  copy[at] = value;
  return copy;
}

function lengthened(good: Buffer, by: number): Buffer {
  const copy = Buffer.from(good);
  copy.writeBigInt64BE(copy.readBigInt64BE(0) + BigInt(by), 0);
  return copy;
}
