import type { Readable } from 'node:stream';
import { parseConnectOptions, type Request, Requests, refusalIn } from '@stevedore/client/internal';
import type { OptionValues } from '@stevedore/options';
import type { clientOptions } from './options.js';

/** The gateway for the subcommands: what it says of files, as its JSON. */

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
  const refusal = refusalIn(error);
  if (refusal) return !OF_ONE_FILE.has(refusal.status);
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

export interface Download {
  readonly body: Readable;
  /** Undefined for a ZIP. */
  readonly size: number | undefined;
}

/** The longest time that the gateway takes. */
const FOR_EVER_MS = 10 ** 15 - 1;
const PATIENCE = { retryTime: 0, connectTimeout: '10s', answerTimeout: '5m' } as const;
/** Longest page of a listing. */
const MAX_PAGE_BYTES = 16 * 2 ** 20;

export interface GatewayAddress extends OptionValues<typeof clientOptions> {
  /** Through the proxy that the environment names. */
  readonly viaProxy: boolean;
}

type About = Pick<Upload, 'name' | 'type' | 'group'>;
type Json = Record<string, unknown>;

export class GatewayClient implements AsyncDisposable {
  readonly #requests: Requests;

  /** Requests under way fail when `stopped` is aborted. */
  constructor(options: GatewayAddress, connections = 1, stopped?: AbortSignal) {
    const { url, apiKey, viaProxy } = options;
    const settings = parseConnectOptions({ url, apiKey, connections, ...PATIENCE });
    this.#requests = new Requests({ ...settings, viaProxy });
    stopped?.addEventListener('abort', () => void this[Symbol.asyncDispose]());
  }

  /** Equal for all ways to write the same URL. */
  get url(): string {
    return this.#requests.url;
  }

  /** Resolves with the receipt. */
  put(upload: Upload): Promise<Json> {
    const { size, mark, body } = upload;
    const headers = aboutHeaders(upload);
    if (size !== undefined) headers['content-length'] = String(size);
    if (mark !== undefined) headers['idempotency-key'] = `once-${mark}`;
    return this.#json({ method: 'POST', path: '/files', headers, body });
  }

  /** The receipt of the upload with this mark, however old. */
  async findOnce(mark: string): Promise<Json | undefined> {
    const query = new URLSearchParams({ once: mark, 'within-ms': String(FOR_EVER_MS) });
    const found: unknown = await this.#json({ method: 'GET', path: `/files?${query}` });
    return Array.isArray(found) ? (found[0] as Json) : undefined;
  }

  async get(id: string): Promise<Readable> {
    return (await this.download(id)).body;
  }

  download(id: string): Promise<Download> {
    return this.#body(pathOf(id));
  }

  /** That of the gateway. */
  async version(): Promise<string> {
    const { info } = await this.#json({ method: 'GET', path: '/openapi.json' });
    return String(Object(info).version);
  }

  stat(id: string): Promise<Json> {
    const path = isFileId(id) ? `/files?${new URLSearchParams({ id })}` : `${pathOf(id)}/info`;
    return this.#json({ method: 'GET', path });
  }

  /** A page of the gateway's files; `query` as for `GET /files`. */
  list(query: Readonly<Record<string, string>>): Promise<Json> {
    return this.#json({ method: 'GET', path: `/files?${new URLSearchParams(query)}` });
  }

  /** A page of the gateway's groups; `query` as for `GET /groups`. */
  groups(query: Readonly<Record<string, string>>): Promise<Json> {
    return this.#json({ method: 'GET', path: `/groups?${new URLSearchParams(query)}` });
  }

  /** The files of `list`, as a ZIP. */
  zip(query: Readonly<Record<string, string>>): Promise<Download> {
    return this.#body(`/files?${new URLSearchParams({ ...query, format: 'zip' })}`);
  }

  /** Deletes a page of a group's files; resolves with `deleted` and `next`. */
  deleteListed(query: Readonly<Record<string, string>>): Promise<Json> {
    return this.#json({ method: 'DELETE', path: `/files?${new URLSearchParams(query)}` });
  }

  /** Resolves once FastDFS has what is staged, with the servers that are `away`. */
  flush(workMs: number): Promise<Json> {
    return this.#json({ method: 'POST', path: `/flush?timeout-ms=${workMs}`, workMs });
  }

  async delete(id: string): Promise<void> {
    await this.#requests.whole({ method: 'DELETE', path: pathOf(id) }, undefined);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#requests.close();
  }

  async #json(request: Request): Promise<Json> {
    return (await this.#requests.json(request, undefined, MAX_PAGE_BYTES)) as Json;
  }

  async #body(path: string): Promise<Download> {
    const { body, headers } = await this.#requests.open({ method: 'GET', path }, undefined);
    const length = headers['content-length'];
    return { body, size: length === undefined ? undefined : Number(length) };
  }
}

function aboutHeaders({ name, type, group }: About) {
  const headers: Record<string, string> = {
    'content-type': type,
    'x-filename': encodeURIComponent(name),
  };
  // Header values are bytes, which the gateway reads as UTF-8.
  if (group !== undefined) headers['x-affinity-group'] = Buffer.from(group).toString('latin1');
  return headers;
}

function isFileId(id: string): boolean {
  return id.includes('/');
}

function pathOf(id: string): string {
  if (!isFileId(id)) return `/files/${encodeURIComponent(id)}`;
  return `/${id.split('/').map(encodeURIComponent).join('/')}`;
}
