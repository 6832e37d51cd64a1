import { connect, type Socket } from 'node:net';
import { type Command, decodeHeader, encodeRequest, HEADER_BYTES } from '@stevedore/protocol';
import { ConnectionError, StatusError } from '../errors.js';
import { endpointText } from '../options.js';
import { ByteSource } from './byte-source.js';
import { plainAddress } from './frame-server.js';
import { SocketSink } from './socket-sink.js';

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
}

const MAX_REPLY_BYTES = 1024 * 1024;

export class FrameClient {
  readonly #socket: Socket;
  readonly #source: ByteSource;
  readonly #sink: SocketSink;
  readonly #timeoutMs: number;
  /** Resolves when the connection has ended, whoever ended it. */
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

  static open(options: FrameClientOptions, signal: AbortSignal): Promise<FrameClient> {
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
  async ask<Request, Answer>(command: Command<Request, Answer>, request: Request): Promise<Answer> {
    await this.#sink.write(encodeRequest(command, request));
    const header = decodeHeader(await this.#source.exactly(HEADER_BYTES, this.#timeoutMs));
    if (header.bodyBytes > MAX_REPLY_BYTES) {
      throw new ConnectionError('ERR_CONNECTION_LOST', `${command.name}: an answer too long`);
    }
    const body = await this.#source.exactly(header.bodyBytes, this.#timeoutMs);
    if (header.status !== 0) throw new StatusError(header.status, command.name);
    return command.reply.decode(body);
  }

  close(): void {
    this.#socket.destroy();
  }
}
