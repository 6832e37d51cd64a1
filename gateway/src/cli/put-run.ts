import { createHash } from 'node:crypto';
import { extname } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { refusalIn } from '@stevedore/client/internal';
import { DEFAULT_TYPE } from '@stevedore/middleware/core';
import { formatBytes } from '@stevedore/options';
import { lookup } from 'mime-types';
import { crcOf, hex } from './csv.js';
import { complaint } from './errors.js';
import { endsAll, type GatewayClient } from './gateway-client.js';
import { countOf, type Transfer } from './progress.js';

/**
 * One run of `put` or `import`. It sends every file of a source, or skips it if the gateway has an
 * upload with its mark and its bytes. A file counts as sent once the gateway answers with the CRC-32
 * of the bytes that were read. If nothing more can succeed, the run stops early and counts what was
 * not sent.
 */

export interface SourceFile {
  /** Its name in messages. */
  readonly path: string;
  /** Where it is; undefined for a stream, which is sent without a mark, and once. */
  readonly identity: string | undefined;
  /** Name to store it under. */
  readonly name: string;
  /** Undefined for a stream. */
  readonly size: number | undefined;
  /** Changes whenever the file does. */
  readonly state: string;
  /** If it is known before the bytes are. */
  readonly crc32?: number | undefined;
  open(): Readable | Promise<Readable>;
}

export interface SourceFailure {
  readonly path: string;
  readonly error: unknown;
}

/** Read by several workers at once. */
export type Source = AsyncGenerator<SourceFile | SourceFailure, void, undefined>;

export type Receipt = Readonly<Record<string, unknown>>;

export interface PutRunOptions {
  readonly client: GatewayClient;
  readonly progress: Transfer;
  readonly group: string | undefined;
  /** Undefined: by the name's extension. */
  readonly type: string | undefined;
  readonly concurrency: number;
  readonly onReceipt: (receipt: Receipt, file: SourceFile, isSkipped: boolean) => void;
  /** Aborted when the user wants no more; the requests under way fail then. */
  readonly stopped: AbortSignal;
}

/** A gateway that limits requests names a short time; one without space names a long one. */
const MAX_PAUSE_MS = 10_000;

export class PutRun {
  readonly #options: PutRunOptions;
  #isOver = false;
  #doneBytes = 0;
  #storedFiles = 0;
  #storedBytes = 0;
  #skippedFiles = 0;
  #failedFiles = 0;
  #unsentFiles = 0;
  /** For the summary; empty if a stream is among the files. */
  #goesOn = ': the same command goes on from here';

  constructor(options: PutRunOptions) {
    this.#options = options;
  }

  /** True if the gateway has every file. */
  async putAll(files: Source): Promise<boolean> {
    const worker = async (): Promise<void> => {
      for await (const file of files) {
        if (this.#options.stopped.aborted) break;
        await this.#take(file);
      }
    };
    await Promise.all(Array.from({ length: this.#options.concurrency }, worker));
    return this.#failedFiles === 0 && this.#unsentFiles === 0;
  }

  /** Empty if the receipt says it all. */
  summary(): string {
    const stored = `stored ${countOf(this.#storedFiles)}, ${formatBytes(this.#storedBytes)}`;
    const others: string[] = [];
    if (this.#skippedFiles > 0) others.push(`${countOf(this.#skippedFiles)} there already`);
    if (this.#failedFiles > 0) others.push(`${countOf(this.#failedFiles)} failed`);
    if (this.#unsentFiles > 0) {
      others.push(`${countOf(this.#unsentFiles)} not sent${this.#goesOn}`);
    }
    if (this.#options.stopped.aborted) others.push(`stopped${this.#goesOn}`);
    if (others.length === 0) return this.#storedFiles === 1 ? '' : stored;
    return (this.#storedFiles === 0 ? others : [stored, ...others]).join('; ');
  }

  async #take(file: SourceFile | SourceFailure): Promise<void> {
    if ('error' in file) {
      this.#fail(file.path, file.error);
    } else if (this.#isOver) {
      this.#unsentFiles += 1;
    } else {
      await this.#put(file).catch((error: unknown) => {
        if (this.#options.stopped.aborted) return;
        if (error instanceof UnreadableError) this.#fail(file.path, error.cause);
        else if (!endsRun(error)) this.#fail(file.path, error);
        else {
          this.#unsentFiles += 1;
          // Once: files in flight fail for the same reason.
          if (!this.#isOver) this.#options.progress.warn(complaint(file.path, error));
          this.#isOver = true;
        }
      });
    }
  }

  async #put(file: SourceFile): Promise<void> {
    if (file.identity === undefined) this.#goesOn = '';
    const { onReceipt } = this.#options;
    const known = await this.#known(file);
    if (known) {
      this.#skippedFiles += 1;
      this.#advance(file.size);
      onReceipt(known, file, true);
      return;
    }
    const receipt = await this.#send(file);
    this.#storedFiles += 1;
    this.#storedBytes += Number(receipt.size);
    onReceipt(receipt, file, false);
  }

  /** The gateway's facts about this very file: of an earlier run, or of one that was cut off. */
  async #known(file: SourceFile): Promise<Receipt | undefined> {
    if (file.identity === undefined) return undefined;
    const { client } = this.#options;
    const found = await this.#patiently(file, () => client.findOnce(this.#markOf(file)));
    if (!found || found.size !== file.size) return undefined;
    return found.crc32 === (await sumOf(file)) ? found : undefined;
  }

  async #send(file: SourceFile): Promise<Receipt> {
    const mark = file.identity === undefined ? undefined : this.#markOf(file);
    return this.#patiently(file, async () => {
      try {
        return await this.#sendOnce(file, mark);
      } catch (error) {
        // Path, times and size do not exclude that another file has the same mark.
        if (mark === undefined || refusalIn(error)?.status !== 422) throw error;
        return this.#sendOnce(file, undefined);
      }
    });
  }

  /**
   * The same for a file that is sent again, so that the gateway stores it once. It keeps marks of
   * every client apart, and itself knows which gateway it is.
   */
  #markOf({ identity, state, name }: SourceFile): string {
    const { group = '', type = '' } = this.#options;
    const text = JSON.stringify([identity, state, name, group, type]);
    return createHash('sha256').update(text).digest().subarray(0, MARK_BYTES).toString('base64url');
  }

  async #sendOnce(file: SourceFile, mark: string | undefined): Promise<Receipt> {
    const { client, group } = this.#options;
    const { path, name, size } = file;
    let sentBytes = 0;
    let sum = 0;
    const advance = (chunk: Buffer): void => {
      sum = crc32(chunk, sum);
      sentBytes += chunk.length;
      this.#advance(chunk.length);
    };
    const source = await openSource(file);
    const counted = async function* (): AsyncGenerator<Buffer, void, undefined> {
      for await (const chunk of source) {
        advance(chunk);
        yield chunk;
      }
    };
    const body = Readable.from(counted(), { objectMode: false });
    body.on('error', () => {});
    try {
      const type = this.#typeOf(name);
      const receipt = await client.put({ body, size, name, type, group, mark });
      await this.#check(receipt, file, sum);
      return receipt;
    } catch (error) {
      this.#advance(-sentBytes);
      const { errored } = source;
      throw errored && isOwnFailure(errored)
        ? new UnreadableError(path, { cause: errored })
        : error;
    } finally {
      body.destroy();
      source.destroy();
    }
  }

  /** The gateway confirms the bytes that were read, and these are the file's. */
  async #check(receipt: Receipt, { path, crc32: own }: SourceFile, sum: number): Promise<void> {
    const isWrong = own !== undefined && own !== sum;
    if (!isWrong && receipt.crc32 === hex(sum)) return;
    await this.#options.client.delete(String(receipt.key)).catch(() => {});
    const cause = new Error(
      isWrong ? 'its bytes do not have its CRC-32' : 'the gateway received other bytes',
    );
    throw new UnreadableError(path, { cause });
  }

  /**
   * Retries at the times that the gateway names: while it limits requests, or still takes the same
   * upload from a run that was cut off.
   */
  async #patiently<Result>(
    { identity }: SourceFile,
    request: () => Promise<Result>,
  ): Promise<Result> {
    for (;;) {
      try {
        return await request();
      } catch (error) {
        const { status, retryAfterMs } = refusalIn(error) ?? {};
        const pauseMs = status === 429 || status === 409 ? retryAfterMs : undefined;
        if (identity === undefined || !pauseMs || pauseMs > MAX_PAUSE_MS) throw error;
        await sleep(pauseMs, undefined, { signal: this.#options.stopped });
      }
    }
  }

  #fail(path: string, error: unknown): void {
    this.#failedFiles += 1;
    this.#options.progress.warn(complaint(path, error));
  }

  #typeOf(name: string): string {
    return this.#options.type ?? (lookup(extname(name)) || DEFAULT_TYPE);
  }

  #advance(bytes = 0): void {
    this.#doneBytes += bytes;
    const doneFiles = this.#storedFiles + this.#skippedFiles + this.#failedFiles;
    this.#options.progress.update(this.#doneBytes, doneFiles);
  }
}

const MARK_BYTES = 16;

/** This file cannot be read or stored; others can. */
class UnreadableError extends Error {}

/** Undefined if it cannot be read: to send it will say why. */
async function sumOf(file: SourceFile): Promise<string | undefined> {
  if (file.crc32 !== undefined) return hex(file.crc32);
  try {
    return await crcOf(await openSource(file));
  } catch (error) {
    if (error instanceof UnreadableError || isOwnFailure(error as Error)) return undefined;
    throw error;
  }
}

async function openSource(file: SourceFile): Promise<Readable> {
  try {
    const source = await file.open();
    return source.on('error', () => {});
  } catch (error) {
    throw endsAll(error) ? error : new UnreadableError(file.path, { cause: error });
  }
}

/** The end of a request ends its body too, without a system call that failed. */
function isOwnFailure(error: Error): boolean {
  return 'syscall' in error;
}

function endsRun(error: unknown): boolean {
  // The server has no path for uploads at all.
  return endsAll(error) || refusalIn(error)?.status === 404;
}
