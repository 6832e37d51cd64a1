import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import {
  beginAuthentication,
  type Command,
  clientProof,
  decodeHeader,
  encodeRequest,
  encodeRequestHead,
  HEADER_BYTES,
  isSameProof,
  NONCE_BYTES,
  type PayloadCommand,
  ProtocolError,
  proveAuthentication,
  Status,
  serverProof,
} from '@stevedore/protocol';
import { AuthenticationError, ConnectionError, StatusError } from '../errors.js';
import { endpointText } from '../options.js';
import type { AccessSettings } from '../server/access.js';
import { ByteSource } from '../server/byte-source.js';
import { plainAddress } from '../server/frame-server.js';
import { SocketSink } from '../server/socket-sink.js';

/**
 * A connection to another daemon on which one command at a time is asked. Any
 * failure but an answered error status leaves it unusable: close it.
 */

export interface FrameClientOptions {
  readonly host: string;
  readonly port: number;
  /** Address to connect from: servers tell storages apart by it. */
  readonly localAddress?: string;
  readonly timeoutMs: number;
  /** With a secret, the peer must have it too, unless `withoutSecret` is `all`. */
  readonly access?: PeerAccess;
}

export type PeerAccess = Pick<AccessSettings, 'secret' | 'withoutSecret'>;

type AnswerOf<Answer> = Pick<Command<unknown, Answer>, 'name' | 'reply'>;

const MAX_REPLY_BYTES = 1024 * 1024;

export class FrameClient {
  readonly #socket: Socket;
  readonly #source: ByteSource;
  readonly #sink: SocketSink;
  readonly #timeoutMs: number;
  /** Resolves when the connection has ended, from either side. */
  readonly ended: Promise<void>;

  private constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    this.#source = new ByteSource(socket, MAX_REPLY_BYTES);
    this.#sink = new SocketSink(socket, timeoutMs);
    this.ended = new Promise((resolve) => {
      socket.once('end', () => socket.destroy());
      socket.once('close', () => resolve());
    });
  }

  /** Rejects with ConnectionError, AuthenticationError or what the system says. */
  static async open(options: FrameClientOptions, signal: AbortSignal): Promise<FrameClient> {
    const client = await FrameClient.#connect(options, signal);
    const { access, host, port } = options;
    if (access?.secret === undefined) return client;
    try {
      if (await client.#authenticate(access.secret, endpointText({ host, port }))) return client;
    } catch (error) {
      client.close();
      throw error;
    }
    client.close();
    if (access.withoutSecret === 'all') return FrameClient.#connect(options, signal);
    const where = endpointText({ host, port });
    throw new AuthenticationError(`${where} has no secret, or is no server of Stevedore`);
  }

  static #connect(options: FrameClientOptions, signal: AbortSignal): Promise<FrameClient> {
    const { host, port, localAddress, timeoutMs } = options;
    return new Promise((resolve, reject) => {
      const socket = connect({
        host,
        port,
        noDelay: true,
        keepAlive: true,
        ...(localAddress === undefined ? {} : { localAddress }),
      });
      const client = new FrameClient(socket, timeoutMs);
      const where = endpointText({ host, port });
      const late = new ConnectionError('ERR_CONNECTION_TIMEOUT', `${where} does not answer`);
      const timer = setTimeout(() => socket.destroy(late), timeoutMs);
      const abort = (): void => client.close();
      signal.addEventListener('abort', abort);
      if (signal.aborted) abort();
      socket.on('error', reject);
      socket.once('connect', () => {
        clearTimeout(timer);
        resolve(client);
      });
      void client.ended.then(() => {
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
        reject(new ConnectionError('ERR_CONNECTION_LOST', `${where} has closed`));
      });
    });
  }

  /** The peer's address as the system has it, even if it was connected to by name. */
  get remoteAddress(): string {
    return plainAddress(this.#socket.remoteAddress ?? '');
  }

  /** Asks a command; an answer of another status than 0 is a StatusError. */
  async ask<Request, Answer>(
    command: Command<Request, Answer>,
    request: Request,
    flags = 0,
  ): Promise<Answer> {
    await this.#sink.write(encodeRequest(command, request, flags));
    return this.#answer(command);
  }

  /**
   * Asks a command that brings `payloadBytes(request)` bytes, read piece by piece. Where
   * the peer refuses before it has got them all, its answer counts if it can be had.
   */
  async send<Request, Answer>(
    command: PayloadCommand<Request, Answer>,
    request: Request,
    read: (position: number) => Promise<Buffer>,
  ): Promise<Answer> {
    const bytes = command.payloadBytes(request);
    await this.#sink.write(encodeRequestHead(command, request));
    try {
      for (let at = 0; at < bytes; ) {
        const chunk = await read(at);
        if (chunk.length === 0) throw new TypeError('a request without all of its bytes');
        await this.#sink.write(chunk);
        at += chunk.length;
      }
    } catch (error) {
      if (error instanceof ConnectionError) await this.#answer(command);
      throw error;
    }
    return this.#answer(command);
  }

  /**
   * Asks a command whose answer may be of any length: its bytes, in order, as `read` asks
   * for them. Nothing else can be asked before all of them are read.
   */
  async stream<Request>(
    command: Command<Request, Buffer>,
    request: Request,
    flags = 0,
  ): Promise<{ readonly bytes: number; readonly read: (most: number) => Promise<Buffer> }> {
    await this.#sink.write(encodeRequest(command, request, flags));
    const { status, bodyBytes } = decodeHeader(
      await this.#source.exactly(HEADER_BYTES, this.#timeoutMs),
    );
    if (status !== 0) throw new StatusError(status, command.name);
    let left = bodyBytes;
    const read = async (most: number): Promise<Buffer> => {
      const chunks = await this.#source.some(Math.min(most, left), this.#timeoutMs);
      const chunk = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
      left -= chunk.length;
      return chunk;
    };
    return { bytes: bodyBytes, read };
  }

  /** Each end shows the other that it has the secret; false if the peer has none. */
  async #authenticate(secret: string, where: string): Promise<boolean> {
    const client = randomBytes(NONCE_BYTES);
    try {
      const server = await this.ask(beginAuthentication, client);
      const nonces = { client, server };
      const shown = await this.ask(proveAuthentication, clientProof(secret, nonces));
      if (isSameProof(shown, serverProof(secret, nonces))) return true;
    } catch (error) {
      if (error instanceof StatusError && error.status === Status.invalid) return false;
      if (!(error instanceof StatusError) && !(error instanceof ProtocolError)) throw error;
    }
    throw new AuthenticationError(`${where} has another secret`);
  }

  async #answer<Answer>({ name, reply }: AnswerOf<Answer>): Promise<Answer> {
    const header = decodeHeader(await this.#source.exactly(HEADER_BYTES, this.#timeoutMs));
    if (header.bodyBytes > MAX_REPLY_BYTES) {
      throw new ConnectionError('ERR_CONNECTION_LOST', `${name}: an answer too long`);
    }
    const body = await this.#source.exactly(header.bodyBytes, this.#timeoutMs);
    if (header.status !== 0) throw new StatusError(header.status, name);
    return reply.decode(body);
  }

  close(): void {
    this.#socket.destroy();
  }
}
