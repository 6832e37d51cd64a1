import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Arrived } from '@stevedore/bench/arrived';
import { decodeHeader, HEADER_BYTES, OPEN_BODY_BYTES } from '@stevedore/protocol';
import { runOut } from './run-out.js';
import { type Received, replyFrame, ScriptedServer } from './scripted-server.js';

/**
 * A proxy in front of a tracker or storage. It passes requests on whole, and can misbehave instead
 * of passing on the answer. By then, the request has taken effect.
 */
export class FaultyServer {
  readonly #server: ScriptedServer;
  readonly #port: number;
  readonly #host: string;
  readonly #faults = new Map<number, Answer>();
  readonly #refusals = new Map<number, number>();
  readonly #counts = new Map<number, number>();
  readonly #links = new WeakMap<Socket, Link>();

  private constructor(server: ScriptedServer, host: string, port: number) {
    this.#server = server;
    this.#host = host;
    this.#port = port;
    server.handler = { onRequest: (received) => void this.#onRequest(received) };
  }

  /** Listens at the same host, on that port or a free one. */
  static async before(
    server: { readonly host: string; readonly port: number },
    host: string,
    port: number,
  ): Promise<FaultyServer> {
    const scripted = await ScriptedServer.listen({ onRequest() {} }, host, port);
    return new FaultyServer(scripted, server.host, server.port);
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
    this.#faults.set(command, typeof how === 'function' ? how : how.answer);
  }

  /** Refuses this command from now on, which then has no effect. */
  refuse(command: number, status: number): void {
    this.#refusals.set(command, status);
  }

  /** Behaves again. */
  behave(): void {
    this.#faults.clear();
    this.#refusals.clear();
  }

  /** Refuses connections and drops those it has, as a server that died. */
  close(): Promise<void> {
    return this.#server.close();
  }

  async #onRequest(received: Received): Promise<void> {
    const { command, frame, socket } = received;
    this.#counts.set(command, this.count(command) + 1);
    const status = this.#refusals.get(command);
    if (status !== undefined) {
      socket.write(replyFrame(status));
      return;
    }
    let link = this.#links.get(socket);
    if (!link || link.hasEnded) {
      link = new Link(this.#host, this.#port, socket);
      this.#links.set(socket, link);
    }
    const good = await link.ask(frame);
    const answer = this.#faults.get(command);
    if (answer && good) {
      answer(received, good);
      return;
    }
    if (good) socket.write(good);
    if (link.hasEnded) socket.end();
  }
}

/** The connection to the server behind, for one connection of a client. */
class Link {
  hasEnded = false;
  readonly #socket: Socket;
  readonly #arrived = new Arrived();
  #wake = (): void => {};

  constructor(host: string, port: number, client: Socket) {
    this.#socket = connect(port, host);
    this.#socket.setNoDelay(true);
    this.#socket.on('data', (bytes: Buffer) => {
      this.#arrived.push(bytes);
      this.#wake();
    });
    this.#socket.on('error', () => {});
    this.#socket.on('close', () => {
      this.hasEnded = true;
      this.#wake();
    });
    client.on('close', () => this.#socket.destroy());
  }

  /** The frame of the answer; undefined if there is none. */
  async ask(frame: Buffer): Promise<Buffer | undefined> {
    this.#socket.write(frame);
    await this.#until(HEADER_BYTES);
    const header = this.#arrived.peek(HEADER_BYTES);
    if (!header) return undefined;
    const { bodyBytes } = decodeHeader(header, true);
    await this.#until(HEADER_BYTES + bodyBytes);
    const isOpen = bodyBytes === OPEN_BODY_BYTES;
    return this.#arrived.take(isOpen ? this.#arrived.length : HEADER_BYTES + bodyBytes);
  }

  /** Until so many bytes have come, or no more will. */
  async #until(bytes: number): Promise<void> {
    while (this.#arrived.length < bytes && !this.hasEnded) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** Answers a request; `good` is the correct reply. */
export type Answer = (received: Received, good: Buffer) => void;

export interface Misbehaviour {
  /** What the server does, completing "a server that ..". */
  readonly name: string;
  readonly answer: Answer;
  /** Codes with which a client may report it. */
  readonly codes: readonly string[];
}

function wrong(name: string, codes: readonly string[], answer: Answer): Misbehaviour {
  return { name, codes, answer };
}

const LOST = ['connection_lost'];
const BAD = ['bad_reply'];
const LATE = ['timeout'];

export const silence: Answer = () => {};

export const stall = wrong('says nothing', LATE, ({ socket }) => void runOut(socket));

export const reset = wrong('resets the connection', LOST, ({ socket }) => {
  socket.resetAndDestroy();
});

export const fin = wrong('closes the connection', LOST, ({ socket }) => void socket.end());

const shortReply = wrong('closes within the header', LOST, ({ socket }, good) => {
  socket.end(good.subarray(0, 7));
});

const longReply = wrong('sends more than it announced', BAD, ({ socket }, good) => {
  socket.write(Buffer.concat([good, Buffer.from('more')]));
});

const wrongCommand = wrong('has the wrong command byte', BAD, patching(8, 101));

const garbage = wrong('sends text of another protocol', BAD, ({ socket }) => {
  socket.write('HTTP/1.1 400 Bad Request\r\n\r\n');
});

/** Behaviours that fit every command. */
export const MISBEHAVIOURS: readonly Misbehaviour[] = [
  ...[stall, reset, fin, shortReply, longReply, wrongCommand, garbage],
  wrong('stalls within the header', LATE, ({ socket }, good) => {
    socket.write(good.subarray(0, 7));
    void runOut(socket);
  }),
  wrong('announces a negative length', BAD, patching(0, 0xff)),
  wrong('announces an absurd length', BAD, patching(0, 0x7f)),
  wrong('announces a byte more than it sends, then closes', [...LOST, ...BAD], (to, good) => {
    to.socket.end(lengthened(good, 1));
  }),
  wrong('announces a byte more than it sends, then stalls', [...LATE, ...BAD], (to, good) => {
    to.socket.write(lengthened(good, 1));
    void runOut(to.socket);
  }),
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

/** The correct reply, but for one byte. */
function patching(at: number, value: number): Answer {
  return ({ socket }, good) => {
    const copy = Buffer.from(good);
    copy[at] = value;
    socket.write(copy);
  };
}

function lengthened(good: Buffer, by: number): Buffer {
  const copy = Buffer.from(good);
  copy.writeBigInt64BE(copy.readBigInt64BE(0) + BigInt(by), 0);
  return copy;
}
