import { createReadStream } from 'node:fs';
import { opendir, stat } from 'node:fs/promises';
import { basename, extname, join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { DEFAULT_TYPE } from '@stevedore/middleware/core';
import { formatBytes } from '@stevedore/options';
import { lookup } from 'mime-types';
import { explain } from './errors.js';
import { endsAll, type GatewayClient, GatewayError } from './gateway-client.js';
import type { Progress } from './progress.js';
import type { PutJournal } from './put-journal.js';

/**
 * One run of `put`. It sends every file below the paths, or skips it if the journal has a key for
 * it and the gateway still has that file. If nothing else can succeed, it stops early and counts
 * what was not sent.
 */

export type Receipt = Readonly<Record<string, unknown>>;

export interface PutRunOptions {
  readonly client: GatewayClient;
  readonly progress: Progress;
  /** Undefined where there is none: then every file is sent. */
  readonly journal: PutJournal | undefined;
  readonly group: string | undefined;
  readonly sendsAgain: boolean;
  readonly concurrency: number;
  /** Bytes of all files, for the bar. */
  readonly totalBytes: number;
  readonly onReceipt: (receipt: Receipt, isSkipped: boolean) => void;
}

/** A gateway that limits requests names a short time, one that is out of room a long one. */
const MAX_PAUSE_MS = 10_000;

export class PutRun {
  readonly #options: PutRunOptions;
  #journal: PutJournal | undefined;
  #checksGateway: boolean;
  #isOver = false;
  #doneBytes = 0;
  #storedFiles = 0;
  #storedBytes = 0;
  #skippedFiles = 0;
  #failedFiles = 0;
  #unsentFiles = 0;

  constructor(options: PutRunOptions) {
    this.#options = options;
    this.#journal = options.journal;
    this.#checksGateway = !options.sendsAgain;
  }

  /** True if the gateway has every file. */
  async putAll(paths: readonly string[]): Promise<boolean> {
    const files = localFiles(paths);
    const worker = async (): Promise<void> => {
      for await (const file of files) await this.#take(file);
    };
    await Promise.all(Array.from({ length: this.#options.concurrency }, worker));
    return this.#failedFiles === 0 && this.#unsentFiles === 0;
  }

  /** Empty where one receipt says it all. */
  summary(): string {
    const stored = `stored ${count(this.#storedFiles)}, ${formatBytes(this.#storedBytes)}`;
    const others: string[] = [];
    if (this.#skippedFiles > 0) others.push(`${count(this.#skippedFiles)} there already`);
    if (this.#failedFiles > 0) others.push(`${count(this.#failedFiles)} failed`);
    if (this.#unsentFiles > 0) {
      others.push(`${count(this.#unsentFiles)} not sent: the same command goes on from here`);
    }
    if (others.length === 0) return this.#storedFiles === 1 ? '' : stored;
    return (this.#storedFiles === 0 ? others : [stored, ...others]).join('; ');
  }

  async #take(file: LocalFile | LocalFailure): Promise<void> {
    if ('error' in file) {
      this.#fail(file.path, file.error);
    } else if (this.#isOver) {
      this.#unsentFiles += 1;
    } else {
      await this.#put(file).catch((error: unknown) => {
        if (error instanceof UnreadableError) this.#fail(file.path, error.cause);
        else if (endsRun(error)) this.#end(file.path, error);
        else this.#fail(file.path, error);
      });
    }
  }

  async #put(file: LocalFile): Promise<void> {
    const { onReceipt } = this.#options;
    const known = await this.#known(file);
    if (known) {
      this.#skippedFiles += 1;
      this.#advance(file.size);
      onReceipt(known, true);
      return;
    }
    const receipt = await this.#send(file);
    this.#storedFiles += 1;
    this.#storedBytes += file.size;
    onReceipt(receipt, false);
  }

  /** What the gateway has of this very file. */
  async #known({ path, name, size, state }: LocalFile): Promise<Receipt | undefined> {
    const { client, group = '' } = this.#options;
    if (!this.#checksGateway) return undefined;
    const entry = this.#remembering((journal) => journal.find(resolve(path)));
    const isSame = entry?.state === state && entry.name === name && entry.affinityGroup === group;
    if (!isSame) return undefined;
    try {
      const info = await this.#patiently(() => client.stat(entry.key));
      return info.size === size ? info : undefined;
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      if (error.status === 404) return undefined;
      if (error.status !== 401 && error.status !== 403) throw error;
      if (this.#checksGateway) {
        this.#options.progress.warn(`files that the gateway has are sent again: ${error.message}`);
      }
      this.#checksGateway = false;
      return undefined;
    }
  }

  async #send(file: LocalFile): Promise<Receipt> {
    const { path, name, state } = file;
    const { group: affinityGroup = '' } = this.#options;
    const receipt = await this.#patiently(() => this.#sendOnce(file));
    const key = String(receipt.key);
    this.#remembering((journal) =>
      journal.record(resolve(path), { state, name, affinityGroup, key }),
    );
    return receipt;
  }

  /** A journal that fails is given up: the files are stored all the same. */
  #remembering<Result>(work: (journal: PutJournal) => Result): Result | undefined {
    try {
      return this.#journal && work(this.#journal);
    } catch (error) {
      this.#journal = undefined;
      this.#options.progress.warn(`warning: stored files are not remembered: ${explain(error)}`);
      return undefined;
    }
  }

  async #sendOnce({ path, name, size }: LocalFile): Promise<Receipt> {
    const { client, group } = this.#options;
    let sentBytes = 0;
    const advance = (bytes: number): void => {
      sentBytes += bytes;
      this.#advance(bytes);
    };
    const source = createReadStream(path);
    const body = Readable.from(counted(source, advance), { objectMode: false });
    body.on('error', () => {});
    try {
      const type = lookup(extname(name)) || DEFAULT_TYPE;
      return await client.put({ body, size, name, type, group });
    } catch (error) {
      this.#advance(-sentBytes);
      // The end of a request ends its body too, but by no system call.
      const { errored } = source;
      throw errored && 'syscall' in errored ? new UnreadableError(path, { cause: errored }) : error;
    } finally {
      body.destroy();
      source.destroy();
    }
  }

  /** Retries while the gateway limits requests, when it says to. */
  async #patiently<Result>(request: () => Promise<Result>): Promise<Result> {
    for (;;) {
      try {
        return await request();
      } catch (error) {
        const pauseMs = error instanceof GatewayError && error.status === 429 && error.retryAfterMs;
        if (!pauseMs || pauseMs > MAX_PAUSE_MS) throw error;
        await sleep(pauseMs);
      }
    }
  }

  #fail(path: string, error: unknown): void {
    this.#failedFiles += 1;
    this.#options.progress.warn(`${path}: ${explain(error)}`);
  }

  /** Reported once: files in flight fail for the same reason. */
  #end(path: string, error: unknown): void {
    this.#unsentFiles += 1;
    if (!this.#isOver) this.#options.progress.warn(`${path}: ${explain(error)}`);
    this.#isOver = true;
  }

  #advance(bytes: number): void {
    this.#doneBytes += bytes;
    this.#options.progress.update(this.#doneBytes, this.#options.totalBytes);
  }
}

/** The file on this disk could not be read; the gateway has nothing to do with it. */
class UnreadableError extends Error {}

async function* counted(
  source: Readable,
  advance: (bytes: number) => void,
): AsyncGenerator<Buffer, void, undefined> {
  for await (const chunk of source) {
    advance(chunk.length);
    yield chunk;
  }
}

function endsRun(error: unknown): boolean {
  // There is no path for uploads at all.
  return endsAll(error) || (error instanceof GatewayError && error.status === 404);
}

function count(files: number): string {
  return `${files} ${files === 1 ? 'file' : 'files'}`;
}

/** Files on this disk, as `put` finds them. */

export interface LocalFile {
  readonly path: string;
  /** Name to store it under: of a file in a directory with the way to it. */
  readonly name: string;
  readonly size: number;
  /** Changes whenever the file does: size, time of the last change, inode. */
  readonly state: string;
}

export interface LocalFailure {
  readonly path: string;
  readonly error: unknown;
}

/** Files as they are, directories with all that is below them; links only where named. */
export async function* localFiles(
  paths: readonly string[],
): AsyncGenerator<LocalFile | LocalFailure, void, undefined> {
  for (const path of paths) yield* from(path, basename(join(path)));
}

async function* from(
  path: string,
  name: string,
): AsyncGenerator<LocalFile | LocalFailure, void, undefined> {
  try {
    const found = await stat(path, { bigint: true });
    if (!found.isDirectory()) {
      if (!found.isFile()) throw new Error(`${path} is neither a file nor a directory`);
      const { size, mtimeNs, ino } = found;
      yield { path, name, size: Number(size), state: `${size} ${mtimeNs} ${ino}` };
      return;
    }
    for await (const entry of await opendir(path)) {
      if (!entry.isFile() && !entry.isDirectory()) continue;
      yield* from(join(path, entry.name), name === '.' ? entry.name : `${name}/${entry.name}`);
    }
  } catch (error) {
    yield { path, error };
  }
}
