import type { IncomingHttpHeaders } from 'node:http';
import { pipeline, type Readable, Transform } from 'node:stream';
import { crc32 } from 'node:zlib';
import { StoreError } from '@stevedore/staging';
import { type Dispatcher, Pool } from 'undici';
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

/** Longest JSON that is taken for what is known of a file. */
const MAX_INFO_BYTES = 64 * 1024;

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
  readonly #pool: Pool;
  readonly #options: GatewayFilesOptions;

  /** Throws StoreError `invalid_option` for a URL that is none. */
  constructor(url: string, options: GatewayFilesOptions) {
    const { maxConnections, connectTimeoutMs, answerTimeoutMs } = options;
    this.#url = url;
    this.#options = options;
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      throw new StoreError('invalid_option', `"${url}" is no URL of a gateway`);
    }
    this.#pool = new Pool(new URL(url).origin, {
      connections: maxConnections,
      connect: { timeout: connectTimeoutMs },
      headersTimeout: answerTimeoutMs,
      bodyTimeout: answerTimeoutMs,
    });
  }

  async stat(key: string, signal: AbortSignal | undefined): Promise<FileInfo> {
    const { body } = await this.#ask('GET', `/peer/files/${key}/info`, {}, signal);
    const text = await textOf(body, MAX_INFO_BYTES, this.#url);
    const info = parsed(text);
    if (!info || info.key !== key) {
      throw unavailable(this.#url, new Error('what it says of the file is no such thing'));
    }
    return {
      key,
      name: info.name,
      size: info.size,
      type: info.type,
      crc32: Number.parseInt(info.crc32, 16),
      state: info.state,
      stagedAt: new Date(info.stagedAt),
      ...(info.affinityGroup === undefined ? {} : { group: info.affinityGroup }),
      ...(info.expiresAt === undefined ? {} : { expiresAt: new Date(info.expiresAt) }),
      ...(info.fileId === undefined ? {} : { fileId: info.fileId }),
    };
  }

  /** The bytes of the file, or of a range of it, as they arrive. */
  async read(
    info: Pick<FileInfo, 'key' | 'size' | 'crc32'>,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Readable> {
    const headers = range ? { range: `bytes=${range.start}-${range.end}` } : {};
    const path = `/peer/files/${info.key}`;
    const { body, statusCode, headers: answer } = await this.#ask('GET', path, headers, signal);
    const bytes = range ? range.end - range.start + 1 : info.size;
    if (statusCode !== (range ? 206 : 200) || lengthOf(answer) !== bytes) {
      body.destroy();
      throw unavailable(this.#url, new Error(`status ${statusCode}, ${lengthOf(answer)} bytes`));
    }
    const checked = new Checked(bytes, range ? undefined : info.crc32, this.#url);
    // A failure of either side reaches the reader through the last stream.
    return pipeline(body, checked, () => undefined);
  }

  async delete(key: string): Promise<void> {
    const { body } = await this.#ask('DELETE', `/peer/files/${key}`, {}, undefined);
    await body.dump();
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #ask(
    method: 'GET' | 'DELETE',
    path: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): Promise<Dispatcher.ResponseData> {
    let answer: Dispatcher.ResponseData;
    try {
      answer = await this.#pool.request({
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

function lengthOf(headers: IncomingHttpHeaders): number {
  return Number(headers['content-length'] ?? Number.NaN);
}

async function textOf(body: AsyncIterable<Buffer>, limit: number, url: string): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > limit) break;
      chunks.push(chunk);
    }
  } catch (error) {
    throw unavailable(url, error);
  }
  if (bytes > limit) throw unavailable(url, new Error('too long an answer'));
  return Buffer.concat(chunks).toString();
}

function parsed(text: string): InfoJson | undefined {
  try {
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
