import { readdir } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import type { FileCacheStats } from '@stevedore/cache';
import { type StorageOptions, startStorage } from '@stevedore/node';
import {
  appendFile,
  type Command,
  decodeHeader,
  downloadFile,
  encodeRequest,
  encodeRequestHead,
  type FileId,
  type FileName,
  modifyFile,
  OPEN_BODY_BYTES,
  type PayloadCommand,
  parseFileName,
  type StorageStatistics,
  uploadAppenderFile,
  uploadFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { startTracker, type TrackerOptions } from '@stevedore/tracker';
import { onTestFinished, vi } from 'vitest';
import { temporaryFolder } from '../temporary.js';

export { until } from '../until.js';

/** Daemons and raw connections of one test, closed behind it. */

const WAIT_LIMIT_MS = 40_000;

export interface RawReply {
  readonly command: number;
  readonly status: number;
  readonly body: Buffer;
  /** It had no length and ended with its connection. */
  readonly isOpen?: boolean;
}

/** A socket that knows frames and nothing else. */
export class RawClient {
  readonly socket: Socket;
  #received = Buffer.alloc(0);
  #ended = false;
  #wake: () => void = () => {};

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    socket.on('error', () => {});
    for (const event of ['end', 'close']) {
      socket.on(event, () => {
        this.#ended = true;
        this.#wake();
      });
    }
  }

  static open(port: number, host = '127.0.0.1'): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port, noDelay: true });
      socket.once('error', reject);
      socket.once('connect', () => {
        onTestFinished(() => void socket.destroy());
        resolve(new RawClient(socket));
      });
    });
  }

  send(bytes: Buffer | string): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'hex') : bytes);
  }

  /** The next whole reply; undefined if the server ends instead. */
  async reply(): Promise<RawReply | undefined> {
    for (;;) {
      if (this.#received.length >= 10) {
        const { bodyBytes, command, status } = decodeHeader(this.#received, true);
        if (bodyBytes === OPEN_BODY_BYTES && this.#ended) {
          const body = this.#received.subarray(10);
          this.#received = Buffer.alloc(0);
          return { command, status, body, isOpen: true };
        }
        if (this.#received.length >= 10 + bodyBytes) {
          const body = this.#received.subarray(10, 10 + bodyBytes);
          this.#received = this.#received.subarray(10 + bodyBytes);
          return { command, status, body };
        }
      }
      if (this.#ended) return undefined;
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(
          () => reject(new Error(`no reply within ${WAIT_LIMIT_MS} ms`)),
          WAIT_LIMIT_MS,
        );
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  async exchange(bytes: Buffer | string): Promise<RawReply> {
    this.send(bytes);
    const reply = await this.reply();
    if (!reply) throw new Error('the server closed without a reply');
    return reply;
  }

  /** Status and decoded body of a command. */
  async ask<Request, Answer>(command: Command<Request, Answer>, request: Request, flags = 0) {
    const { status, body } = await this.exchange(encodeRequest(command, request, flags));
    return { status, answer: status === 0 ? command.reply.decode(body) : undefined };
  }

  /** True if the connection answers ACTIVE_TEST, false if the server has ended it. */
  async isOpen(): Promise<boolean> {
    this.send('00000000000000006f00');
    return (await this.reply()) !== undefined;
  }

  /** Resolves when the server has ended the connection; fails on further bytes. */
  async ended(): Promise<void> {
    const reply = await this.reply();
    if (reply) throw new Error(`a reply of status ${reply.status} instead of an end`);
  }

  /** As `ask`, with the bytes of a file. */
  async bring<Request, Answer>(
    command: PayloadCommand<Request, Answer>,
    request: Request,
    content: Buffer,
  ) {
    const frame = Buffer.concat([encodeRequestHead(command, request), content]);
    const { status, body } = await this.exchange(frame);
    return { status, answer: status === 0 ? command.reply.decode(body) : undefined };
  }

  /** The answer of a command that must succeed. */
  async must<Request, Answer>(command: Command<Request, Answer>, request: Request) {
    return told(command, await this.ask(command, request));
  }

  async upload(content: Buffer, extension = 'txt', storePathIndex = 0): Promise<FileName> {
    const request = { storePathIndex, size: content.length, extension };
    return told(uploadFile, await this.bring(uploadFile, request, content));
  }

  async appender(content: string | Buffer, extension = 'log'): Promise<FileName> {
    const request = { storePathIndex: 0, size: content.length, extension };
    const sent = this.bring(uploadAppenderFile, request, Buffer.from(content));
    return told(uploadAppenderFile, await sent);
  }

  async slave({ name }: FileName, content: string, prefix = '_s'): Promise<FileName> {
    const request = { master: name, size: content.length, prefix, extension: 'txt' };
    const sent = this.bring(uploadSlaveFile, request, Buffer.from(content));
    return told(uploadSlaveFile, await sent);
  }

  /** The status of an append. */
  async append({ name }: FileName, content: string | Buffer): Promise<number> {
    const request = { name, size: content.length };
    return (await this.bring(appendFile, request, Buffer.from(content))).status;
  }

  /** The status of an overwriting. */
  async modify({ name }: FileName, offset: number, content: string | Buffer): Promise<number> {
    const request = { name, offset, size: content.length };
    return (await this.bring(modifyFile, request, Buffer.from(content))).status;
  }

  /** The bytes of a file, or the status of the refusal. */
  async read(file: FileName, offset = 0, length = 0): Promise<Buffer | number> {
    const { status, answer } = await this.ask(downloadFile, { ...file, offset, length });
    return answer ?? status;
  }

  /** True if the file has these bytes; compares without a slow report on each of many. */
  async has(file: FileName, expected: Buffer, offset = 0, length = 0): Promise<boolean> {
    const bytes = await this.read(file, offset, length);
    return Buffer.isBuffer(bytes) && bytes.equals(expected);
  }
}

function told<Answer>(
  { name }: { readonly name: string },
  { status, answer }: { readonly status: number; readonly answer: Answer | undefined },
): Answer {
  if (status !== 0) throw new Error(`${name}: status ${status}`);
  return answer as Answer;
}

export interface StorageOfTest {
  readonly port: number;
  readonly folder: string;
  readonly errors: Error[];
  cacheStats(): FileCacheStats;
  statistics(): StorageStatistics;
  connect(): Promise<RawClient>;
  close(): Promise<void>;
}

/** A storage in a folder of its own, without trackers. */
export async function storageOf(
  options: Partial<StorageOptions> & { folder?: string } = {},
): Promise<StorageOfTest> {
  const { folder = temporaryFolder(), ...rest } = options;
  const errors: Error[] = [];
  const storage = await startStorage({
    storePaths: [folder],
    port: 0,
    onError: (error) => errors.push(error),
    ...rest,
  });
  onTestFinished(() => storage.close());
  return {
    port: storage.port,
    folder,
    errors,
    cacheStats: () => storage.cacheStats(),
    statistics: () => storage.statistics(),
    connect: () => RawClient.open(storage.port),
    close: () => storage.close(),
  };
}

export async function trackerOf(options: TrackerOptions = {}) {
  const tracker = await startTracker({ port: 0, ...options });
  onTestFinished(() => tracker.close());
  return {
    port: tracker.port,
    connect: () => RawClient.open(tracker.port),
    close: () => tracker.close(),
  };
}

export function idOf({ group, name }: FileName): FileId {
  const id = parseFileName(group, name);
  if (!id) throw new Error(`"${name}" is not a file name`);
  return id;
}

/** Where a file lies on disk. */
export function pathOf(folder: string, file: FileName): string {
  const { directory, base } = idOf(file);
  return join(folder, 'data', ...directory, base);
}

/** All files below `data`, relative, without the state file and the log. */
export async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(join(folder, 'data'), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.stevedore-'))
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .filter((path) => !path.startsWith(join('data', 'sync')))
    .sort();
}

/** Uptime runs so many times as fast for what runs in this process, until the test ends. */
export function hasten(times: number): void {
  const now = performance.now.bind(performance);
  const begun = now();
  const fast = () => begun + (now() - begun) * times;
  const clock = vi.spyOn(performance, 'now').mockImplementation(fast);
  onTestFinished(() => clock.mockRestore());
}

/** Lets the daemons of this process read what has been sent to them, and do what takes no time. */
export async function turns(count = 10): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise(setImmediate);
}
