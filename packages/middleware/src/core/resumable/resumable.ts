import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  isStoreError,
  type UnfinishedUpload,
  type UnfinishedUploads,
} from '@stevedore/client/connect';
import { invalidOption } from '@stevedore/client/connect/internal';
import { Server, TUS_RESUMABLE } from '@tus/server';
import type { Answer } from '../http/file-answer.js';
import { isFault, ProblemError, problemAnswer, toProblem } from '../problems.js';
import { checkBytes } from '../upload/content-check.js';
import { type IdempotentUploads, uploadMark } from '../upload/idempotency.js';
import type { UploadParts } from '../upload/receive.js';
import { RequestBody, sendContinueIfExpected } from '../upload/request-body.js';
import {
  asWebRequest,
  CHECKSUMS,
  checksumOf,
  concatOf,
  methodOf,
  newUpload,
  ownHeaders,
  problemOf,
} from './messages.js';
import { noteOf, type ResumableRequest } from './request.js';
import {
  EXTENSIONS,
  TusStore,
  thisRequest,
  tooLong,
  type UnderWay,
  underWay,
} from './tus-store.js';

/**
 * Resumable uploads by tus 1.0. `@tus/server` speaks the protocol, the store keeps the bytes, and
 * this module adds what both lack: checksums, concatenation, policies, and problems as answers. An
 * upload's id is the key of the file that it becomes; the answer that ends it contains the key in
 * `X-File-Key`.
 */
export interface ResumableOptions extends UploadParts {
  /** Marks of permissions that are good for one file. */
  readonly oneTime: Pick<IdempotentUploads, 'begin' | 'finish'>;
}

const KEY_HEADER = 'x-file-key';
const OFFSET_TYPE = 'application/offset+octet-stream';
/** Enough of a file to detect its type. */
const HEAD_BYTES = 4100;
const MAX_ENDED = 10_000;

export class ResumableUploads {
  readonly #options: ResumableOptions;
  readonly #uploads: UnfinishedUploads;
  readonly #server: Server;
  /** Uploads by one-time URLs that became files a while ago. */
  readonly #ended = new Set<string>();
  /** Parts that are being joined. */
  readonly #joining = new Set<string>();

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
        return this.#create(size === null ? undefined : Number(size));
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
    const begin =
      method === 'POST'
        ? newUpload(headers, asked, concat === 'partial', this.#options.limits)
        : undefined;
    const { id, quota, visibleScope, onReceived } = asked;
    const current: UnderWay = {
      checksum: checksumOf(headers),
      begin,
      quota,
      visibleScope,
      id,
      expectedBytes: bytesOf(headers['content-length']),
    };
    if (id !== undefined) this.#demandVisible(id, asked);
    try {
      return await underWay.run(current, async () => {
        if (Array.isArray(concat)) return this.#join(concat, current, asked);
        // Its last request may have failed before it became a file; this client asks for its state.
        if (method === 'HEAD' && id !== undefined) await this.#finishWhole(asked, current);
        return this.#speak(request, response, method, current, asked);
      });
    } catch (error) {
      await current.writing?.catch(() => undefined);
      // Nobody knows the id of a new upload: the answer would have told it.
      const created = current.id === id ? undefined : current.id;
      if (created) await this.#uploads.remove(created).catch(() => undefined);
      throw error;
    } finally {
      await current.writing?.catch(() => undefined);
      await onReceived?.(current.receivedBytes ?? 0, current.id);
    }
  }

  #demandNotJoining(id: string): void {
    if (!this.#joining.has(id)) return;
    throw new ProblemError('upload_under_way', `The upload ${id} is being joined with others.`);
  }

  #demandVisible(id: string, { visibleScope }: ResumableRequest): void {
    const upload = visibleScope === undefined ? undefined : this.#uploads.find(id);
    if (upload && noteOf(upload).scope !== visibleScope) throw noUpload();
    this.#demandNotJoining(id);
  }

  async #speak(
    request: IncomingMessage,
    response: ServerResponse,
    method: string,
    current: UnderWay,
    { path, filesPath, id, onStored }: ResumableRequest,
  ): Promise<Answer> {
    const upload = id === undefined ? undefined : this.#uploads.find(id);
    const body = this.#bodyOf(request, response, method);
    let answer: Response;
    try {
      answer = await this.#server.handleWeb(asWebRequest(request, method, id, body));
    } finally {
      body?.release();
    }
    if (answer.status >= 400) throw problemOf(answer, body?.failure ?? current.failure);
    const headers: Record<string, string> = { 'cache-control': 'no-store' };
    for (const [name, value] of answer.headers) headers[name] = value;
    delete headers['access-control-expose-headers'];
    if (headers.location !== undefined) headers.location = `${path}/${headers.location}`;
    if (method === 'HEAD' && upload) Object.assign(headers, ownHeaders(upload));
    const { receipt } = current;
    if (receipt && method !== 'HEAD') await onStored?.(receipt, [receipt.key]);
    // Another request may have ended it while this one waited.
    const isFile = method !== 'DELETE' && id !== undefined && !this.#uploads.find(id);
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
  ): RequestBody | undefined {
    const { headers } = request;
    const hasBody =
      headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
    if (!hasBody || (method !== 'PATCH' && method !== 'POST')) return undefined;
    const { limits, guard } = this.#options;
    sendContinueIfExpected(request, response);
    return new RequestBody(request, { limitBytes: limits.maxFileBytes, guard });
  }

  /** Creates an upload. Resolves with its id. */
  async #create(size: number | undefined): Promise<string> {
    const current = thisRequest();
    if (!current.begin) throw new Error('this request begins no upload');
    const { note, ...about } = current.begin;
    if (size !== undefined && size > note.maxBytes) throw tooLong(note);
    const create = () => this.#uploads.begin({ ...about, note: JSON.stringify(note), size });
    const { once } = about;
    const { id } = await (once ? this.#options.oneTime.begin(once, create) : create());
    current.id = id;
    return id;
  }

  /**
   * Creates an upload from the bytes of others, in order (extension concatenation), and removes
   * those. The bytes of each part are counted already, once.
   */
  async #join(
    ids: readonly string[],
    current: UnderWay,
    { path, filesPath, onStored }: ResumableRequest,
  ): Promise<Answer> {
    const scope = current.begin?.note.scope ?? '';
    const distinct = [...new Set(ids)];
    const parts = new Map(distinct.map((id) => [id, this.#partOf(id, scope)]));
    const sizeOf = (each: readonly string[]) =>
      each.reduce((sum, id) => sum + (parts.get(id)?.offset ?? 0), 0);
    const size = sizeOf(ids);
    const repeatedBytes = size - sizeOf(distinct);
    for (const id of distinct) this.#demandNotJoining(id);
    for (const id of distinct) this.#joining.add(id);
    try {
      await current.quota?.take(repeatedBytes, repeatedBytes);
      const id = await this.#create(size);
      current.receivedBytes = repeatedBytes;
      let offset = 0;
      for (const part of ids) {
        offset = await this.#uploads.append(id, offset, this.#uploads.read(part), {
          transfer: true,
        });
      }
      for (const part of distinct) this.#partOf(part, scope);
      await this.#finish(id);
      if (current.receipt) await onStored?.(current.receipt, distinct);
      // One that cannot be removed now is removed when it is too old.
      for (const part of distinct) await this.#uploads.remove(part).catch(() => undefined);
      return {
        status: 201,
        headers: {
          'tus-resumable': TUS_RESUMABLE,
          'cache-control': 'no-store',
          location: `${path}/${id}`,
          'content-location': `${filesPath}/${id}`,
          [KEY_HEADER]: id,
        },
      };
    } finally {
      for (const id of distinct) this.#joining.delete(id);
    }
  }

  #partOf(id: string, scope: string): UnfinishedUpload {
    const part = this.#uploads.find(id);
    if (!part || !noteOf(part).isPart || noteOf(part).scope !== scope) {
      throw new ProblemError('not_found', 'Upload-Concat names an upload that does not exist.');
    }
    if (part.offset !== part.size) {
      throw new ProblemError('length_mismatch', `The part ${id} is not finished.`);
    }
    return part;
  }

  async #finishWhole({ id = '', onStored }: ResumableRequest, current: UnderWay): Promise<void> {
    const upload = this.#uploads.find(id);
    if (!upload || upload.offset !== upload.size) return;
    await this.#finish(id);
    if (current.receipt) await onStored?.(current.receipt, [id]);
  }

  /** After an upload's last byte: makes it a file, or refuses and removes it. */
  async #finish(id: string): Promise<Record<string, never>> {
    const current = thisRequest();
    const upload = this.#uploads.find(id);
    if (!upload || noteOf(upload).isPart) return {};
    const { once } = upload;
    // The mark lets its scope, and no other, see that the upload has become a file.
    const own = once ? {} : { once: scopeMark(current.visibleScope, id) };
    try {
      if (noteOf(upload).checkContent) await this.#checkContent(upload);
      const finish = () => this.#uploads.finish(id, own);
      current.receipt = await (once ? this.#options.oneTime.finish(once, finish) : finish());
      if (once) this.#noteEnded(id);
    } catch (error) {
      current.failure ??= error;
      const isSpent = error instanceof ProblemError && error.code === 'signature_expired';
      if (isSpent) await this.#uploads.remove(id).catch(() => undefined);
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

  /** Of a one-time URL: the mark of its file is that of the URL. */
  #noteEnded(id: string): void {
    this.#ended.add(id);
    const [oldest = id] = this.#ended;
    if (this.#ended.size > MAX_ENDED) this.#ended.delete(oldest);
  }

  /**
   * The size of the file that an upload became, if it is here and the request may see it. Of other
   * files, a key tells nothing: to read them may need more.
   */
  async #sizeOf(id: string): Promise<number | undefined> {
    const { store } = this.#options;
    const { visibleScope } = thisRequest();
    const mark = scopeMark(visibleScope, id);
    const how = { withinMs: Number.POSITIVE_INFINITY, onlyHere: true };
    const known = (await store.findOnce(mark, how)).find(({ key }) => key === id);
    if (known || visibleScope !== undefined || !this.#ended.has(id)) return known?.size;
    try {
      return (await store.stat(id, { onlyHere: true })).size;
    } catch (error) {
      if (isStoreError(error, 'not_found')) return undefined;
      throw error;
    }
  }
}

function bytesOf(length: string | undefined): number | undefined {
  return length === undefined ? undefined : Number(length);
}

function scopeMark(scope: string | undefined, id: string): Buffer {
  return uploadMark(`resumable ${scope ?? ''}`, id);
}

function noUpload(): ProblemError {
  return new ProblemError('not_found', 'There is no such upload.');
}
