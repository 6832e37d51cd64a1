import type { Readable } from 'node:stream';
import type { OptionValues } from '@stevedore/options';
import { type Dispatcher, Pool } from 'undici';
import { UsageError } from './errors.js';
import { type clientOptions, DEFAULT_URL } from './options.js';

/** The gateway as the subcommands see it: a pool of connections and one error. */

/** A refusal by the gateway, with its text. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly status: number;
  /** Undefined if it did not say when to retry. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, message: string, retryAfterMs?: number) {
    super(message);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Refusals that concern one file; after any other, the next file is refused too. */
const OF_ONE_FILE: ReadonlySet<number> = new Set([400, 404, 408, 409, 411, 413, 415, 422, 500]);
/** A connection that broke, or a file that changed. */
const OF_ONE_REQUEST: ReadonlySet<unknown> = new Set([
  'ECONNRESET',
  'EPIPE',
  'UND_ERR_SOCKET',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
]);

/** True if no other request to this gateway can succeed now. */
export function endsAll(error: unknown): boolean {
  if (error instanceof GatewayError) return !OF_ONE_FILE.has(error.status);
  return !OF_ONE_REQUEST.has((error as NodeJS.ErrnoException).code);
}

export interface Upload {
  readonly body: Readable;
  /** Undefined if it is not known before the end. */
  readonly size: number | undefined;
  readonly name: string;
  readonly type: string;
  readonly group: string | undefined;
  /** 16 bytes in base64url: the same upload, sent again, is stored once. */
  readonly mark?: string | undefined;
}

/** The longest time that the gateway takes. */
const FOR_EVER_MS = 10 ** 15 - 1;

type About = Pick<Upload, 'name' | 'type' | 'group'>;

export class GatewayClient implements AsyncDisposable {
  /** Equal for all ways to write the same URL. */
  readonly url: string;
  readonly #pool: Pool;
  readonly #base: string;
  readonly #authorization: Readonly<Record<string, string>>;

  /** Requests under way fail when `stopped` is aborted. */
  constructor(
    { url, apiKey }: OptionValues<typeof clientOptions>,
    connections = 1,
    stopped?: AbortSignal,
  ) {
    const { origin, pathname } = parseUrl(url);
    this.#base = pathname.replace(/\/+$/, '');
    this.url = origin + this.#base;
    this.#authorization = apiKey === '' ? {} : { authorization: `Bearer ${apiKey}` };
    this.#pool = new Pool(origin, { connections, pipelining: 1 });
    stopped?.addEventListener('abort', () => void this[Symbol.asyncDispose]());
  }

  /** Resolves with the receipt. */
  async put(upload: Upload): Promise<Record<string, unknown>> {
    const { size, mark } = upload;
    const headers = aboutHeaders(upload);
    if (size !== undefined) headers['content-length'] = String(size);
    if (mark !== undefined) headers['idempotency-key'] = `once-${mark}`;
    return this.#json(await this.#request('POST', '/files', { headers, body: upload.body }));
  }

  /** Gives a file in FastDFS a key; resolves with the receipt. */
  async register(id: string, about: About): Promise<Record<string, unknown>> {
    const path = `/files?${new URLSearchParams({ id })}`;
    return this.#json(await this.#request('POST', path, { headers: aboutHeaders(about) }));
  }

  /** The receipt of the upload with this mark, however old. */
  async findOnce(mark: string): Promise<Record<string, unknown> | undefined> {
    const query = new URLSearchParams({ once: mark, 'within-ms': String(FOR_EVER_MS) });
    const found = await this.#json(await this.#request('GET', `/files?${query}`));
    return Array.isArray(found) ? (found[0] as Record<string, unknown>) : undefined;
  }

  async get(id: string): Promise<Readable> {
    return (await this.#request('GET', pathOf(id))).body;
  }

  /** All facts for a key; for a FastDFS id, those in its headers. */
  async stat(id: string): Promise<Record<string, unknown>> {
    if (!isFileId(id)) {
      return this.#json(await this.#request('GET', `${pathOf(id)}/info`));
    }
    const { headers } = await this.#request('HEAD', pathOf(id));
    return {
      fileId: id,
      size: Number(headers['content-length']),
      type: headers['content-type'],
      stagedAt: new Date(String(headers['last-modified'])).toISOString(),
    };
  }

  /** A page of the gateway's files; `query` as for `GET /files`. */
  async list(query: Readonly<Record<string, string>>): Promise<Record<string, unknown>> {
    return this.#json(await this.#request('GET', `/files?${new URLSearchParams(query)}`));
  }

  /** The files of `list`, as a ZIP. */
  async zip(query: Readonly<Record<string, string>>): Promise<Readable> {
    const parameters = new URLSearchParams({ ...query, format: 'zip' });
    return (await this.#request('GET', `/files?${parameters}`)).body;
  }

  /** Deletes a page of a group's files; resolves with `deleted` and `next`. */
  async deleteListed(query: Readonly<Record<string, string>>): Promise<Record<string, unknown>> {
    return this.#json(await this.#request('DELETE', `/files?${new URLSearchParams(query)}`));
  }

  async delete(id: string): Promise<void> {
    await (await this.#request('DELETE', pathOf(id))).body.dump();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.destroy();
  }

  async #json({ body }: Dispatcher.ResponseData): Promise<Record<string, unknown>> {
    const text = await body.text();
    try {
      return JSON.parse(text) as Record<string, unknown>;
    } catch {
      throw new Error(`what answers at ${this.url} is not a gateway`);
    }
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

function aboutHeaders({ name, type, group }: About) {
  const headers: Record<string, string> = {
    'content-type': type,
    'x-filename': encodeURIComponent(name),
  };
  if (group !== undefined) headers['x-affinity-group'] = headerBytes(group);
  return headers;
}

async function refusal(answer: Dispatcher.ResponseData): Promise<GatewayError> {
  const { statusCode, headers, body } = answer;
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
    parseRetryAfter(headers['retry-after']),
  );
}

function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  return typeof header === 'string' && /^\d{1,9}$/.test(header) ? Number(header) * 1000 : undefined;
}

function isFileId(id: string): boolean {
  return id.includes('/');
}

function pathOf(id: string): string {
  if (!isFileId(id)) return `/files/${encodeURIComponent(id)}`;
  return `/${id.split('/').map(encodeURIComponent).join('/')}`;
}

/** Header values are bytes, which the gateway reads as UTF-8. */
function headerBytes(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && (url.protocol === 'http:' || url.protocol === 'https:')) return url;
  throw new UsageError(`"${text}" is not the URL of a gateway; write it like ${DEFAULT_URL}`);
}
