import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { ReadableStream } from 'node:stream/web';
import {
  invalidOption,
  isStoreError,
  type Receipt,
  type Store,
  type UnfinishedUpload,
  type UnfinishedUploads,
} from '@stevedore/client/connect';
import { Metadata, Server, TUS_RESUMABLE } from '@tus/server';
import { DEFAULT_TYPE } from '../http/content-headers.js';
import type { Answer } from '../http/file-answer.js';
import type { TransferLimits } from '../limits.js';
import { isFault, ProblemError, problemAnswer, toProblem } from '../problems.js';
import { checkBytes } from '../upload/content-check.js';
import { expiryOf, typeProblem, type UploadPolicy } from '../upload/policy.js';
import type { ProgressGuard, UploadRoom } from '../upload/request-body.js';
import { RequestBody, sendContinueIfExpected } from '../upload/request-body.js';
import { type Note, noteOf } from './note.js';
import { type Begin, EXTENSIONS, TusStore, type UnderWay, underWay } from './tus-store.js';
import { CHECKSUMS, checksumOf, concatOf, metadataOf } from './upload-headers.js';

/**
 * Resumable uploads by tus 1.0. `@tus/server` speaks the protocol, the store keeps the bytes, and
 * this module adds what both lack: checksums, concatenation, policies, and problems as answers. An
 * upload's id is the key of the file that it becomes; the answer that ends it contains the key in
 * `X-File-Key`.
 */
export interface ResumableOptions {
  readonly store: Store;
  readonly limits: TransferLimits;
  readonly guard: ProgressGuard;
}

/** One request. */
export interface ResumableRequest {
  /** Path of the collection; each upload is below it. */
  readonly path: string;
  /** Path of the files. */
  readonly filesPath: string;
  /** Of the upload; absent for the path of all of them. */
  readonly id?: string;
  readonly room: UploadRoom;
  /** The client whose share of the unfinished uploads a new one uses. */
  readonly client: string;
  /** For a request that creates an upload. */
  readonly policy?: UploadPolicy;
  readonly scope?: string;
  readonly mark?: Buffer | undefined;
  /** The client, which can have only so many unfinished uploads. Default: no such limit. */
  readonly owner?: string;
  /** Most bytes that the request may bring. */
  readonly limitBytes?: number | undefined;
  /** Called once, with the number of bytes that were stored. */
  readonly onReceived?: (bytes: number) => void;
  /** Called before the answer that ends an upload; if it throws, its error is the answer. */
  readonly onStored?: (receipt: Receipt, scope: string) => void | Promise<void>;
}

/** The header in which a web page finds the key of the file. */
const KEY_HEADER = 'x-file-key';
const OFFSET_TYPE = 'application/offset+octet-stream';
/** Enough of a file to detect its type. */
const HEAD_BYTES = 4100;
const ANYTHING: UploadPolicy = {};

export class ResumableUploads {
  readonly #options: ResumableOptions;
  readonly #uploads: UnfinishedUploads;
  readonly #server: Server;

  /** Throws `invalid_option` for a store without unfinished uploads. */
  constructor(options: ResumableOptions) {
    const { unfinished } = options.store;
    if (!unfinished) throw invalidOption('this store keeps no uploads in several requests');
    this.#options = options;
    this.#uploads = unfinished;
    const store = new TusStore(unfinished, (id) => this.#sizeOf(id));
    this.#server = new Server({
      path: '/',
      datastore: store,
      namingFunction: ({ headers }) => {
        const size = headers.get('upload-length');
        return store.begin(size === null ? undefined : Number(size));
      },
      generateUrl: (_request, { id }) => id,
      getFileIdFromRequest: (_request, id) => id,
      allowedOrigins: () => false,
      onUploadFinish: (_request, { id }) => this.#finish(id),
      onResponseError: (_request, error) => {
        const request = underWay.getStore();
        if (request) request.failure ??= error;
        return undefined;
      },
    });
  }

  /** OPTIONS: capabilities. */
  options(): Answer {
    return {
      status: 204,
      headers: {
        'tus-resumable': TUS_RESUMABLE,
        'tus-version': TUS_RESUMABLE,
        'tus-extension': EXTENSIONS.join(','),
        'tus-checksum-algorithm': CHECKSUMS.join(','),
        'tus-max-size': String(this.#options.limits.maxFileBytes),
      },
    };
  }

  /** POST, HEAD, PATCH and DELETE. Sends refusals too, as they need headers of the protocol. */
  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    asked: ResumableRequest,
  ): Promise<Answer> {
    try {
      return await this.#handle(request, response, asked);
    } catch (error) {
      const problem = toProblem(error);
      if (isFault(problem.code)) throw error;
      const { status, headers, content } = problemAnswer(problem);
      const own = { 'tus-resumable': TUS_RESUMABLE, 'tus-version': TUS_RESUMABLE };
      const answer = { status, headers: { ...headers, ...own } };
      return request.method === 'HEAD' ? answer : { ...answer, content };
    }
  }

  async #handle(
    request: IncomingMessage,
    response: ServerResponse,
    asked: ResumableRequest,
  ): Promise<Answer> {
    const { headers } = request;
    const method = methodOf(request);
    if (headers['tus-resumable'] !== TUS_RESUMABLE) {
      throw new ProblemError(
        'tus_version',
        `Resumable uploads are by tus ${TUS_RESUMABLE}: send Tus-Resumable: ${TUS_RESUMABLE}. A file in one request goes to ${asked.filesPath}.`,
      );
    }
    if (method === 'PATCH' && headers['content-type'] !== OFFSET_TYPE) {
      throw new ProblemError('invalid_media_type', `PATCH takes Content-Type: ${OFFSET_TYPE}.`);
    }
    const concat = method === 'POST' ? concatOf(headers) : undefined;
    const begin = method === 'POST' ? this.#begin(headers, asked, concat === 'partial') : undefined;
    const current: UnderWay = { checksum: checksumOf(headers), begin };
    return underWay.run(current, async () => {
      if (Array.isArray(concat)) return this.#join(concat, current, asked);
      // Its last request may have failed before it became a file; this client asks for its state.
      if (method === 'HEAD' && asked.id !== undefined) await this.#finishWhole(asked, current);
      return this.#speak(request, response, method, current, asked);
    });
  }

  /** What a new upload is to become, under the route's policy. */
  #begin(
    headers: IncomingHttpHeaders,
    { policy = ANYTHING, scope = '', mark, client }: ResumableRequest,
    isPart: boolean,
  ): Begin {
    const { limits } = this.#options;
    const raw = String(headers['upload-metadata'] ?? '');
    let values: Record<string, string | null> = {};
    try {
      if (raw !== '') values = Metadata.parse(raw);
    } catch (error) {
      throw new ProblemError('bad_request', 'Upload-Metadata is malformed.', error);
    }
    const { name, type = DEFAULT_TYPE, group } = metadataOf(headers, values, limits);
    const refused = isPart ? undefined : typeProblem(type, policy);
    if (refused) throw refused;
    const now = Date.now();
    const { expiresAt } = expiryOf(headers, policy, now);
    const note: Note = {
      ...{ scope, metadata: raw, isPart },
      checkContent: policy.checkContent ?? false,
      maxBytes: Math.min(policy.maxFileBytes ?? limits.maxFileBytes, limits.maxFileBytes),
    };
    const ownGroup = policy.group ?? group;
    return {
      ...{
        name,
        type,
        note,
        owner: { name: disguised(client), maxUploads: limits.maxClientUploads },
      },
      ...(mark ? { once: mark } : {}),
      ...(ownGroup === undefined ? {} : { group: ownGroup }),
      ...(expiresAt === undefined ? {} : { ttlMs: expiresAt.getTime() - now }),
    };
  }

  async #speak(
    request: IncomingMessage,
    response: ServerResponse,
    method: string,
    current: UnderWay,
    { path, filesPath, id, room, onStored, onReceived, limitBytes }: ResumableRequest,
  ): Promise<Answer> {
    const upload = id === undefined ? undefined : this.#uploads.find(id);
    const scope = current.begin?.note.scope ?? (upload ? noteOf(upload).scope : '');
    const body = this.#bodyOf(request, response, method, { room, limitBytes });
    let answer: Response;
    try {
      answer = await this.#server.handleWeb(asWebRequest(request, method, id, body));
    } finally {
      body?.release();
      onReceived?.(current.receivedBytes ?? 0);
    }
    if (answer.status >= 400) throw problemOf(answer, body?.failure ?? current.failure);
    const headers: Record<string, string> = { 'cache-control': 'no-store' };
    for (const [name, value] of answer.headers) headers[name] = value;
    delete headers['access-control-expose-headers'];
    if (headers.location !== undefined) headers.location = `${path}/${headers.location}`;
    if (method === 'HEAD' && upload) Object.assign(headers, ownHeaders(upload));
    const { receipt } = current;
    if (receipt && method !== 'HEAD') await onStored?.(receipt, scope);
    // Another request may have ended it while this one waited.
    const isFile = method === 'HEAD' && id !== undefined && !this.#uploads.find(id);
    const key = receipt?.key ?? (isFile ? id : undefined);
    if (key !== undefined) {
      headers[KEY_HEADER] = key;
      headers['content-location'] = `${filesPath}/${key}`;
    }
    return { status: answer.status, headers };
  }

  /** Undefined if the method has no body, or the body is empty. */
  #bodyOf(
    request: IncomingMessage,
    response: ServerResponse,
    method: string,
    bounds: { readonly room: UploadRoom; readonly limitBytes: number | undefined },
  ): RequestBody | undefined {
    const { headers } = request;
    const hasBody =
      headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
    if (!hasBody || (method !== 'PATCH' && method !== 'POST')) return undefined;
    const { limits, guard } = this.#options;
    sendContinueIfExpected(request, response);
    const { room, limitBytes = limits.maxFileBytes } = bounds;
    return new RequestBody(request, { limitBytes, guard, room });
  }

  /**
   * Creates an upload from the bytes of others, in order (extension concatenation), and removes
   * those.
   */
  async #join(
    ids: readonly string[],
    current: UnderWay,
    { path, filesPath, onStored }: ResumableRequest,
  ): Promise<Answer> {
    const uploads = this.#uploads;
    const { note, ...about } = current.begin!;
    const parts = ids.map((id) => {
      const part = uploads.find(id);
      if (part && noteOf(part).isPart && noteOf(part).scope === note.scope) return part;
      throw new ProblemError('not_found', 'Upload-Concat names an upload that does not exist.');
    });
    const open = parts.find(({ offset, size }) => offset !== size);
    if (open) throw new ProblemError('length_mismatch', `The part ${open.id} is not finished.`);
    const size = parts.reduce((sum, { offset }) => sum + offset, 0);
    if (size > note.maxBytes) {
      throw new ProblemError('too_large', `The upload is longer than ${note.maxBytes} bytes.`);
    }
    const { id } = await uploads.begin({ ...about, size, note: JSON.stringify(note) });
    let offset = 0;
    for (const part of parts) offset = await uploads.append(id, offset, uploads.read(part.id));
    await this.#finish(id);
    await onStored?.(current.receipt!, note.scope);
    for (const part of new Set(ids)) await uploads.remove(part);
    return {
      status: 201,
      headers: {
        ...{ 'tus-resumable': TUS_RESUMABLE, 'cache-control': 'no-store' },
        ...{ location: `${path}/${id}`, 'content-location': `${filesPath}/${id}` },
        [KEY_HEADER]: id,
      },
    };
  }

  async #finishWhole({ id = '', onStored }: ResumableRequest, current: UnderWay): Promise<void> {
    const upload = this.#uploads.find(id);
    if (!upload || upload.offset !== upload.size) return;
    await this.#finish(id);
    if (current.receipt) await onStored?.(current.receipt, noteOf(upload).scope);
  }

  /** After an upload's last byte: makes it a file, or refuses and removes it. */
  async #finish(id: string): Promise<Record<string, never>> {
    const current = underWay.getStore()!;
    const upload = this.#uploads.find(id);
    if (!upload || noteOf(upload).isPart) return {};
    try {
      if (noteOf(upload).checkContent) await this.#checkContent(upload);
      current.receipt = await this.#uploads.finish(id);
    } catch (error) {
      current.failure ??= error;
      throw error;
    }
    return {};
  }

  async #checkContent({ id, type, offset }: UnfinishedUpload): Promise<void> {
    const chunks: Uint8Array[] = [];
    const end = Math.min(offset, HEAD_BYTES);
    for await (const chunk of this.#uploads.read(id, 0, end)) chunks.push(chunk);
    const fail = (problem: ProblemError): ProblemError => problem;
    try {
      await checkBytes(Buffer.concat(chunks), { declaredType: type, digests: undefined, fail });
    } catch (error) {
      await this.#uploads.remove(id);
      throw error;
    }
  }

  /** The key of the file that an upload became, if that file is here. */
  async #sizeOf(id: string): Promise<number | undefined> {
    try {
      return (await this.#options.store.stat(id, { onlyHere: true })).size;
    } catch (error) {
      if (isStoreError(error, 'not_found') || isStoreError(error, 'invalid_id')) return undefined;
      throw error;
    }
  }
}

/** An address is not written to the disk as it is. */
function disguised(client: string): string {
  return createHash('sha256').update(client).digest('base64url').slice(0, 22);
}

/** PATCH and DELETE sent as POST, for clients behind proxies that allow no other method. */
function methodOf({ method = '', headers }: IncomingMessage): string {
  const other = headers['x-http-method-override'];
  return method === 'POST' && other !== undefined ? String(other).toUpperCase() : method;
}

function asWebRequest(
  request: IncomingMessage,
  method: string,
  id: string | undefined,
  body: RequestBody | undefined,
): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    if (!/^(?:upload-(?!concat)|tus-|content-)/.test(name) || value === undefined) continue;
    headers.set(name, String(value));
  }
  return new Request(`http://uploads/${id ?? ''}`, {
    ...{ method, headers },
    ...(body ? { body: ReadableStream.from(body.chunks()), duplex: 'half' } : {}),
  } as RequestInit);
}

function ownHeaders(upload: UnfinishedUpload): Record<string, string> {
  const { metadata, isPart } = noteOf(upload);
  return {
    ...(metadata === '' ? {} : { 'upload-metadata': metadata }),
    ...(isPart ? { 'upload-concat': 'partial' } : {}),
  };
}

/** The protocol's library refuses with a status and a text, without a code. */
function problemOf({ status }: Response, failure: unknown): unknown {
  if (failure instanceof Error) return failure;
  const { body = '' } = (failure ?? {}) as { readonly body?: string };
  const text = body.trim() || 'The request is none of the tus protocol.';
  switch (status) {
    case 404:
    case 410:
      return new ProblemError('not_found', text);
    case 409:
      return new ProblemError('offset_mismatch', text);
    case 413:
      return new ProblemError('too_large', text);
    case 400:
    case 403:
      return new ProblemError('bad_request', text);
    default:
      return new ProblemError('upload_under_way', text);
  }
}
