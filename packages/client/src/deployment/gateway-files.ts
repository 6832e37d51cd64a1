import { pipeline, type Readable } from 'node:stream';
import { isStoreError, StoreError } from '@stevedore/staging/errors';
import type { Dispatcher } from 'undici';
import { problemIn } from '../connect/refusals.js';
import { aborted, missing } from '../failures.js';
import { ChecksumStream, discard, infoOf, pageOf, readAll } from '../gateway-answers.js';
import { listQuery } from '../list-query.js';
import type { ByteRange, FileInfo, FilePage, ListOptions } from '../types.js';
import { PeerConnections, type PeerConnectionsOptions, TimeLimit } from './peer-connections.js';
import {
  isAnswerProof,
  PEER_FILE_HEADER,
  PEER_HEADER,
  type PeerSecret,
  peerToken,
} from './peer-seals.js';

/**
 * Files of another gateway of the deployment, over HTTP, while they are staged there. Requests are
 * bounded in time and number, and whole files are checked against their CRC-32. An answer counts only
 * with the proof of a gateway of the deployment. Failures can be retried: they are
 * `storage_unavailable`, or `corrupt` for wrong bytes.
 */

export interface GatewayFilesOptions extends PeerConnectionsOptions {
  readonly peers: PeerSecret;
}

/** A file's facts, with its bytes if they are few. */
export interface FoundFile {
  readonly info: FileInfo;
  readonly bytes: Buffer | undefined;
}

interface Question {
  readonly method: 'GET' | 'DELETE';
  /** Below `/peer/`. */
  readonly path: string;
  /** The file whose absence the gateway may prove. */
  readonly key?: string;
  readonly range?: ByteRange | undefined;
}

/** Upper limit of `smallFileLimit`: larger files are not in a container. */
const MAX_STAGED_BYTES = 16 * 2 ** 20;
/** Longest description of a file in a listing: its texts, each byte escaped, and the rest. */
const MAX_LISTED_BYTES = 12 * 1024;

const MAX_PROBLEM_BYTES = 4 * 1024;

export class GatewayFiles {
  readonly #url: string;
  readonly #options: GatewayFilesOptions;
  readonly #small: PeerConnections;
  /** Separate, so that slow readers of large files do not delay small ones. */
  readonly #streams: PeerConnections;

  constructor(url: string, options: GatewayFilesOptions) {
    this.#url = url;
    this.#options = options;
    this.#small = new PeerConnections(new URL(url).origin, options);
    this.#streams = new PeerConnections(new URL(url).origin, options);
  }

  /** The file's facts, with its bytes if it has at most `mostBytes`. */
  find(key: string, mostBytes: number, signal: AbortSignal | undefined): Promise<FoundFile> {
    return this.#find({ method: 'GET', path: `files/${key}`, key }, mostBytes, signal);
  }

  /** A file from the copy that the gateway holds of the container of that origin. */
  findCopy(origin: number, key: string, signal: AbortSignal | undefined): Promise<FoundFile> {
    const path = `copies/${origin}/${key}`;
    return this.#find({ method: 'GET', path, key }, MAX_STAGED_BYTES, signal);
  }

  async #find(
    { path: file, ...asked }: Question & { readonly key: string },
    mostBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<FoundFile> {
    const limit = new TimeLimit(this.#options.answerTimeoutMs, signal);
    const { key } = asked;
    try {
      const question = { ...asked, path: `${file}?most=${mostBytes}` };
      const answer = await this.#ask(this.#small, question, limit.signal);
      const { body, statusCode, headers } = answer;
      const info = parsed(headers[PEER_FILE_HEADER]);
      if (info?.key !== key) {
        discard(body);
        throw new Error('it does not say what the file is');
      }
      if (statusCode === 204) {
        await body.dump();
        return { info, bytes: undefined };
      }
      if (info.size > mostBytes) {
        discard(body);
        throw new Error(`${info.size} bytes, where ${mostBytes} were asked for at most`);
      }
      const content = this.#checked(answer, 200, info.size, info.crc32, signal);
      return { info, bytes: await readAll(content) };
    } catch (error) {
      throw this.#failure(error, signal);
    } finally {
      limit.end();
    }
  }

  /** Streams the file or a range of it. */
  read(
    info: Pick<FileInfo, 'key' | 'size' | 'crc32'>,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Readable> {
    return this.#open(this.#streams, info, range, signal);
  }

  /** The whole file, checked against its CRC-32. */
  async readWhole(
    info: Pick<FileInfo, 'key' | 'size' | 'crc32'>,
    signal: AbortSignal | undefined,
  ): Promise<Buffer> {
    return readAll(await this.#open(this.#small, info, undefined, signal));
  }

  /** The files of the upload with this mark; none if it was made elsewhere. */
  async findOnce(mark: string, withinMs: number): Promise<FileInfo[]> {
    const limit = new TimeLimit(this.#options.answerTimeoutMs, undefined);
    try {
      const query = Number.isFinite(withinMs) ? `?within=${withinMs}` : '';
      const question = { method: 'GET', path: `uploads/${mark}${query}` } as const;
      const { body } = await this.#ask(this.#small, question, limit.signal);
      const { receipts } = (await body.json()) as { readonly receipts: readonly unknown[] };
      return receipts.map((receipt) => {
        const info = infoOf(receipt);
        if (!info) throw new Error('it does not say what the upload made');
        return info;
      });
    } catch (error) {
      throw this.#failure(error, undefined);
    } finally {
      limit.end();
    }
  }

  /** A page of the files of that gateway and its workers. */
  async list(options: ListOptions & { readonly limit: number }): Promise<FilePage> {
    const limit = new TimeLimit(this.#options.answerTimeoutMs, undefined);
    try {
      const question = { method: 'GET', path: `files?${listQuery(options)}` } as const;
      const { body } = await this.#ask(this.#small, question, limit.signal);
      const text = await readAll(body, (options.limit + 1) * MAX_LISTED_BYTES);
      const page = pageOf(JSON.parse(text.toString()));
      if (!page) throw new Error('it does not send a page of files');
      return page;
    } catch (error) {
      throw this.#failure(error, undefined);
    } finally {
      limit.end();
    }
  }

  async delete(key: string): Promise<void> {
    const limit = new TimeLimit(this.#options.answerTimeoutMs, undefined);
    try {
      const question = { method: 'DELETE', path: `files/${key}`, key } as const;
      const { body } = await this.#ask(this.#small, question, limit.signal);
      await body.dump();
    } catch (error) {
      throw this.#failure(error, undefined);
    } finally {
      limit.end();
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#small.close(), this.#streams.close()]);
  }

  async #open(
    connections: PeerConnections,
    info: Pick<FileInfo, 'key' | 'size' | 'crc32'>,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Readable> {
    const limit = new TimeLimit(this.#options.answerTimeoutMs, signal);
    try {
      const { key } = info;
      const question = { method: 'GET', path: `files/${key}`, key, range } as const;
      const answer = await this.#ask(connections, question, limit.signal);
      return range
        ? this.#checked(answer, 206, range.end - range.start + 1, undefined, signal)
        : this.#checked(answer, 200, info.size, info.crc32, signal);
    } catch (error) {
      throw this.#failure(error, signal);
    } finally {
      // The body has its own limit, between two chunks.
      limit.end();
    }
  }

  /** The body of an answer, after a check of status and length; checks the bytes as they pass. */
  #checked(
    { body, statusCode, headers }: Dispatcher.ResponseData,
    status: number,
    bytes: number,
    crc: number | undefined,
    signal: AbortSignal | undefined,
  ): Readable {
    const length = Number(headers['content-length'] ?? Number.NaN);
    if (statusCode !== status || length !== bytes) {
      discard(body);
      throw new Error(`status ${statusCode}, ${length} bytes`);
    }
    const checked = new ChecksumStream(bytes, crc, this.#url, (error) =>
      this.#failure(error, signal),
    );
    // A failure of either side reaches the reader through the last stream.
    return pipeline(body, checked, () => undefined);
  }

  /** A proven answer with a status below 300. Throws `not_found` if the gateway proves it. */
  async #ask(
    connections: PeerConnections,
    { method, path: below, key, range }: Question,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    const { peers } = this.#options;
    const path = `/peer/${below}`;
    const token = peerToken(peers, method, path);
    const answer = await connections.request(
      {
        method,
        path: new URL(this.#url).pathname.replace(/\/$/, '') + path,
        headers: {
          [PEER_HEADER]: token,
          ...(range ? { range: `bytes=${range.start}-${range.end}` } : {}),
        },
      },
      signal,
    );
    const { statusCode, headers, body } = answer;
    const facts = headers[PEER_FILE_HEADER];
    // Without it, this is the answer of a proxy, or of another server that has this address now.
    const isProven = isAnswerProof(headers[PEER_HEADER], peers, token, statusCode, facts);
    if (isProven && statusCode < 300) return answer;
    const text = await readAll(body, MAX_PROBLEM_BYTES).catch(() => '');
    if (!isProven) throw new Error(`status ${statusCode}, without the proof of a gateway`);
    if (problemIn(String(text)).code === 'missing_in_fastdfs') throw missing(`the file of ${key}`);
    if (statusCode === 404 && key !== undefined) {
      throw new StoreError('not_found', `there is no file ${key}`);
    }
    throw new Error(`status ${statusCode}`);
  }

  #failure(error: unknown, signal: AbortSignal | undefined): StoreError {
    if (isStoreError(error)) return error;
    return signal?.aborted ? aborted(error) : unavailable(this.#url, error);
  }
}

function unavailable(url: string, cause: unknown): StoreError {
  return new StoreError(
    'storage_unavailable',
    `the gateway at ${url} has the file and failed to send it: ${(cause as Error).message}`,
    { cause, retryable: true },
  );
}

function parsed(header: string | string[] | undefined): FileInfo | undefined {
  try {
    return infoOf(JSON.parse(Buffer.from(String(header), 'base64url').toString()));
  } catch {
    return undefined;
  }
}
