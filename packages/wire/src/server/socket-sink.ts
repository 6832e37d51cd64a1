import type { Socket } from 'node:net';
import { ConnectionError } from '../errors.js';

/** Writes to a socket and waits until the peer takes it, though not for ever. */
export class SocketSink {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  #wake: (() => void) | undefined;

  constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    socket.on('drain', () => this.#wake?.());
    socket.on('close', () => this.#wake?.());
  }

  /** Resolves when there is room for more. Several parts travel together. */
  async write(...parts: Buffer[]): Promise<void> {
    const socket = this.#socket;
    if (!socket.writable) throw gone();
    if (parts.length > 1) socket.cork();
    let room = true;
    for (const part of parts) room = socket.write(part);
    if (parts.length > 1) {
      socket.uncork();
      room = !socket.writableNeedDrain;
    }
    if (room) return;
    await this.#drained();
    if (!socket.writable) throw gone();
  }

  #drained(): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#wake = undefined;
        reject(new ConnectionError('ERR_CONNECTION_TIMEOUT', 'the peer does not read its answer'));
      }, this.#timeoutMs);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }
}

function gone(): ConnectionError {
  return new ConnectionError('ERR_CONNECTION_LOST', 'the peer has closed');
}
