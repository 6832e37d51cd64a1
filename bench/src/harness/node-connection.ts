import { connect, type Socket } from 'node:net';
import {
  decodeHeader,
  downloadFile,
  encodeRequest,
  encodeRequestHead,
  type FileName,
  HEADER_BYTES,
  queryStore,
  type StoreTarget,
  uploadFile,
} from '@stevedore/protocol';
import { Arrived } from './arrived.js';

/** `apart`: as the C client does, head and body in a write each and Nagle's algorithm on. */
export type Writing = 'together' | 'apart';

/** One connection to a node, one request at a time: the least that a load can cost. */
export class NodeConnection implements AsyncDisposable {
  readonly #socket: Socket;
  readonly #writing: Writing;
  readonly #arrived = new Arrived();
  #settle: { resolve: (body: Buffer) => void; reject: (error: Error) => void } | undefined;

  private constructor(socket: Socket, writing: Writing) {
    this.#socket = socket;
    this.#writing = writing;
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    socket.on('close', () => this.#fail(new Error('the node has closed the connection')));
    socket.on('error', (error) => this.#fail(error));
  }

  static open(port: number, writing: Writing = 'together'): Promise<NodeConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, noDelay: writing === 'together' });
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new NodeConnection(socket, writing));
      });
    });
  }

  /** Of a tracker: where to upload. */
  async queryStore(): Promise<StoreTarget> {
    return queryStore.reply.decode(await this.#ask([encodeRequest(queryStore, undefined)]));
  }

  /** The whole file. */
  download(file: FileName): Promise<Buffer> {
    return this.#ask([encodeRequest(downloadFile, { ...file, offset: 0, length: 0 })]);
  }

  async upload(pieces: readonly Buffer[], size: number, extension: string): Promise<FileName> {
    const head = encodeRequestHead(uploadFile, { storePathIndex: 0, size, extension });
    return uploadFile.reply.decode(await this.#ask([head, ...pieces]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.destroy();
  }

  #ask(pieces: readonly Buffer[]): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      if (this.#writing === 'together') this.#socket.cork();
      for (const piece of pieces) this.#socket.write(piece);
      this.#socket.uncork();
    });
  }

  #take(chunk: Buffer): void {
    this.#arrived.push(chunk);
    const head = this.#arrived.peek(HEADER_BYTES);
    if (!head) return;
    const { bodyBytes, status } = decodeHeader(head);
    const all = this.#arrived.take(HEADER_BYTES + bodyBytes);
    if (!all) return;
    if (status !== 0) this.#fail(new Error(`the node answers with status ${status}`));
    else this.#settle?.resolve(all.subarray(HEADER_BYTES));
  }

  #fail(error: Error): void {
    this.#settle?.reject(error);
    this.#settle = undefined;
  }
}
