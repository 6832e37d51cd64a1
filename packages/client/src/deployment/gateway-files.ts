import { pipeline, type Readable, Transform } from 'node:stream';
import { crc32 } from 'node:zlib';
import { StoreError } from '@stevedore/staging';
import type { Dispatcher, Pool } from 'undici';
import type { ByteRange, FileInfo, FileState } from '../types.js';

/**
 * Files of another gateway, over HTTP: what the gateways of a deployment ask each other for
 * while a file is staged at one of them. Everything has a limit in time, and whole files are held
 * against their CRC-32.
 */

export interface GatewayFilesOptions {
  /** Connections at most. */
  readonly maxConnections: number;
  readonly connectTimeoutMs: number;
  /** Until the head of an answer, and between two pieces of its body. */
  readonly answerTimeoutMs: number;
  /** Makes the head of a request known to the gateway. */
  readonly sign: (method: string, path: string) => Readonly<Record<string, string>>;
}

/** What is known of the file, beside its bytes: JSON in base64url. */
export const PEER_FILE_HEADER = 'stevedore-file';

interface InfoJson {
  readonly key: string;
  readonly name: string;
  readonly size: number;
  readonly type: string;
  readonly crc32: string;
  readonly state: FileState;
  readonly stagedAt: string;
  readonly affinityGroup?: string;
  readonly expiresAt?: string;
  readonly fileId?: string;
}

export class GatewayFiles {
  readonly #url: string;
  /** Loaded late: undici takes the place of the dispatcher that Node's own `fetch` uses. */
  #pool: Promise<Pool> | undefined;
  readonly #options: GatewayFilesOptions;

  /** Throws StoreError `invalid_option` for a URL that is none. */
  constructor(url: string, options: GatewayFilesOptions) {
    this.#url = url;
    this.#options = options;
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      throw new StoreError('invalid_option', `"${url}" is no URL of a gateway`);
    }
  }

  /** What is known of the file, with its bytes if it is not larger than `mostBytes`. */
  async find(
    key: string,
    mostBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly info: FileInfo; readonly bytes: Buffer | undefined }> {
    const answer = await this.#ask('GET', `/peer/files/${key}?most=${mostBytes}`, {}, signal);
    const { body, statusCode, headers } = answer;
    const facts = parsed(headers[PEER_FILE_HEADER]);
    if (!facts || facts.key !== key) {
      body.destroy();
      throw unavailable(this.#url, new Error('it does not say what the file is'));
    }
    const info = infoOf(facts);
    if (statusCode === 204) {
      await body.dump();
      return { info, bytes: undefined };
    }
    if (info.size > mostBytes) body.destroy();
    return { info, bytes: await collected(this.#checked(answer, 200, info.size, info.crc32)) };
  }

  /** The bytes of the file, or of a range of it, as they arrive. */
  async read(
    info: Pick<FileInfo, 'key' | 'size' | 'crc32'>,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Readable> {
    const headers = range ? { range: `bytes=${range.start}-${range.end}` } : {};
    const answer = await this.#ask('GET', `/peer/files/${info.key}`, headers, signal);
    return range
      ? this.#checked(answer, 206, range.end - range.start + 1, undefined)
      : this.#checked(answer, 200, info.size, info.crc32);
  }

  async delete(key: string): Promise<void> {
    const { body } = await this.#ask('DELETE', `/peer/files/${key}`, {}, undefined);
    await body.dump();
  }

  /** The body of an answer, held against what it must be. */
  #checked(
    { body, statusCode, headers }: Dispatcher.ResponseData,
    status: number,
    bytes: number,
    crc: number | undefined,
  ): Readable {
    const length = Number(headers['content-length'] ?? Number.NaN);
    if (statusCode !== status || length !== bytes) {
      body.destroy();
      throw unavailable(this.#url, new Error(`status ${statusCode}, ${length} bytes`));
    }
    // A failure of either side reaches the reader through the last stream.
    return pipeline(body, new Checked(bytes, crc, this.#url), () => undefined);
  }

  async close(): Promise<void> {
    await (await this.#pool)?.destroy();
  }

  async #connect(): Promise<Pool> {
    const { maxConnections, connectTimeoutMs, answerTimeoutMs } = this.#options;
    const undici = await import('undici');
    return new undici.Pool(new URL(this.#url).origin, {
      connections: maxConnections,
      connect: { timeout: connectTimeoutMs },
      headersTimeout: answerTimeoutMs,
      bodyTimeout: answerTimeoutMs,
    });
  }

  async #ask(
    method: 'GET' | 'DELETE',
    path: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): Promise<Dispatcher.ResponseData> {
    let answer: Dispatcher.ResponseData;
    try {
      this.#pool ??= this.#connect();
      answer = await (await this.#pool).request({
        method,
        path: new URL(this.#url).pathname.replace(/\/$/, '') + path,
        headers: { ...headers, ...this.#options.sign(method, path) },
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw unavailable(this.#url, error);
    }
    const { statusCode, body } = answer;
    if (statusCode < 300) return answer;
    await body.dump().catch(() => {});
    if (statusCode === 404 || statusCode === 410) {
      throw new StoreError('not_found', `there is no file ${path.split('/')[3]}`);
    }
    throw unavailable(this.#url, new Error(`status ${statusCode}`));
  }
}

/** Passes a known number of bytes on, and fails at the end where they are not the right ones. */
class Checked extends Transform {
  #left: number;
  #crc32 = 0;
  readonly #expected: number | undefined;
  readonly #url: string;

  constructor(bytes: number, expected: number | undefined, url: string) {
    super();
    this.#left = bytes;
    this.#expected = expected;
    this.#url = url;
  }

  override _transform(
    chunk: Buffer,
    _: BufferEncoding,
    done: (error: Error | null, data?: Buffer) => void,
  ): void {
    this.#left -= chunk.length;
    if (this.#expected !== undefined) this.#crc32 = crc32(chunk, this.#crc32);
    const isWrong =
      this.#left === 0 && this.#expected !== undefined && this.#crc32 !== this.#expected;
    // The last bytes stay behind, so that nobody takes the file for whole.
    if (this.#left < 0 || isWrong) done(corrupt(this.#url));
    else done(null, chunk);
  }

  override _flush(done: (error?: Error | null) => void): void {
    const isWrong = this.#expected !== undefined && this.#crc32 !== this.#expected;
    done(this.#left !== 0 || isWrong ? corrupt(this.#url) : null);
  }
}

function corrupt(url: string): StoreError {
  return new StoreError('corrupt', `${url} sent bytes that are not the file's`, {
    retryable: true,
  });
}

function unavailable(url: string, cause: unknown): StoreError {
  return new StoreError(
    'storage_unavailable',
    `the gateway at ${url}, which has the file, does not give it: ${(cause as Error).message}`,
    { cause, retryable: true },
  );
}

function infoOf(facts: InfoJson): FileInfo {
  const { key, name, size, type, state, affinityGroup, expiresAt, fileId } = facts;
  return {
    ...{ key, name, size, type, state },
    crc32: Number.parseInt(facts.crc32, 16),
    stagedAt: new Date(facts.stagedAt),
    ...(affinityGroup === undefined ? {} : { group: affinityGroup }),
    ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt) }),
    ...(fileId === undefined ? {} : { fileId }),
  };
}

export async function collected(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function parsed(header: string | string[] | undefined): InfoJson | undefined {
  try {
    const text = Buffer.from(String(header), 'base64url').toString();
    const info = JSON.parse(text) as Partial<InfoJson> | null;
    const isSound =
      typeof info?.key === 'string' &&
      typeof info.name === 'string' &&
      typeof info.type === 'string' &&
      Number.isSafeInteger(info.size) &&
      /^[0-9a-f]{8}$/.test(info.crc32 ?? '') &&
      !Number.isNaN(Date.parse(info.stagedAt ?? ''));
    return isSound ? (info as InfoJson) : undefined;
  } catch {
    return undefined;
  }
}
