import type { Readable } from 'node:stream';
import { type Dispatcher, Pool } from 'undici';
import { UsageError } from './usage.js';

/** The gateway as the subcommands see it: a pool of connections and one error. */

export const DEFAULT_URL = 'http://127.0.0.1:8080';

/** What the gateway refused, in its words. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface Upload {
  readonly body: Readable;
  readonly size: number;
  readonly name: string;
  readonly type: string;
  readonly group: string | undefined;
}

export class GatewayClient implements AsyncDisposable {
  readonly #pool: Pool;
  readonly #base: string;
  readonly #authorization: Readonly<Record<string, string>>;

  constructor(url: string, connections = 1) {
    const { origin, pathname } = parseUrl(url);
    this.#base = pathname.replace(/\/+$/, '');
    const key = process.env.STEVEDORE_API_KEY ?? '';
    this.#authorization = key === '' ? {} : { authorization: `Bearer ${key}` };
    this.#pool = new Pool(origin, { connections, pipelining: 1 });
  }

  /** The receipt. */
  async put(upload: Upload): Promise<Record<string, unknown>> {
    const headers: Record<string, string> = {
      'content-length': String(upload.size),
      'content-type': upload.type,
      'x-filename': encodeURIComponent(upload.name),
    };
    if (upload.group !== undefined) headers['x-affinity-group'] = headerBytes(upload.group);
    const answer = await this.#request('POST', '/files', { headers, body: upload.body });
    return (await answer.body.json()) as Record<string, unknown>;
  }

  async get(id: string): Promise<Readable> {
    return (await this.#request('GET', pathOf(id))).body;
  }

  /** Of a key all that is known; of a FastDFS id what its headers say. */
  async stat(id: string): Promise<Record<string, unknown>> {
    if (!isFileId(id)) {
      const answer = await this.#request('GET', `${pathOf(id)}/info`);
      return (await answer.body.json()) as Record<string, unknown>;
    }
    const { headers } = await this.#request('HEAD', pathOf(id));
    return {
      fileId: id,
      size: Number(headers['content-length']),
      type: headers['content-type'],
      stagedAt: new Date(String(headers['last-modified'])).toISOString(),
    };
  }

  async delete(key: string): Promise<void> {
    if (isFileId(key)) throw new UsageError('files are deleted by their keys, not by FastDFS ids');
    await (await this.#request('DELETE', pathOf(key))).body.dump();
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.destroy();
  }

  async #request(
    method: Dispatcher.HttpMethod,
    path: string,
    options: { readonly headers?: Record<string, string>; readonly body?: Readable } = {},
  ): Promise<Dispatcher.ResponseData> {
    const headers = { ...this.#authorization, ...options.headers };
    const answer = await this.#pool.request({
      ...options,
      method,
      path: this.#base + path,
      headers,
    });
    if (answer.statusCode < 300) return answer;
    throw await refusal(answer);
  }
}

async function refusal({ statusCode, body }: Dispatcher.ResponseData): Promise<GatewayError> {
  const text = await body.text();
  let detail: unknown;
  try {
    detail = (JSON.parse(text) as { readonly detail?: unknown }).detail;
  } catch {
    // Not from a gateway, or an answer to HEAD.
  }
  if (statusCode === 404 && detail === undefined) detail = 'There is no such file.';
  return new GatewayError(
    statusCode,
    typeof detail === 'string' ? detail : `the server answered with status ${statusCode}`,
  );
}

function isFileId(id: string): boolean {
  return id.includes('/');
}

function pathOf(id: string): string {
  if (!isFileId(id)) return `/files/${encodeURIComponent(id)}`;
  return `/${id.split('/').map(encodeURIComponent).join('/')}`;
}

/** Header values are bytes: UTF-8 as the gateway reads it. */
function headerBytes(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && (url.protocol === 'http:' || url.protocol === 'https:')) return url;
  throw new UsageError(`"${text}" is not the URL of a gateway; write it like ${DEFAULT_URL}`);
}
