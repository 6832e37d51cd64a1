import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type {
  GetOptions,
  GroupOptions,
  ListOptions,
  Receipt,
  Store,
  StoredFile,
} from '@stevedore/client';
import { closeAfterReply, hasUnreadBody } from './http/connection.js';
import { type Answer, answerFile, type Presentation } from './http/file-answer.js';
import { type Query, queryOf } from './http/query.js';
import { UnsentBytes } from './http/unsent-bytes.js';
import { whenClosed } from './http/when-closed.js';
import type { TransferLimits } from './limits.js';
import { problemAnswer, toProblem } from './problems.js';
import { partJson, receiptJson } from './receipts.js';
import type { ResumableRequest } from './resumable/request.js';
import type { ResumableUploads } from './resumable/resumable.js';
import {
  IdempotentUploads,
  type Stored,
  type UploadMarks,
  uploadMark,
} from './upload/idempotency.js';
import type { UploadPolicy } from './upload/policy.js';
import { receiveUpload, type UploadParts } from './upload/receive.js';
import { ClientRoom, ProgressGuard, type UploadQuota } from './upload/request-body.js';

/**
 * The files of a store as an HTTP resource: what POST, GET, HEAD and DELETE do and answer, over
 * node's own request and response. The caller decides paths, permissions and policies. An upload
 * that fails, or whose client disconnects, leaves nothing behind.
 */

export interface FilesOptions {
  readonly store: Store;
  readonly limits: TransferLimits;
  /** How every file is presented, unless `read` says otherwise. */
  readonly presentation?: Pick<Presentation, 'private' | 'inlineTypes' | 'resourcePolicy'>;
  /** Marks of uploads in progress, and spent ones; default: those of this process. */
  readonly marks?: UploadMarks | undefined;
  /** Serves derived pictures; default: files are sent as they are. Closed together with this. */
  readonly pictures?: PictureMaker | undefined;
  /** Called with an error that ended an answer early; default: `console.error`. */
  readonly onError?: OnError | undefined;
}

export type OnError = (error: unknown) => void;

/** Serves another file instead, such as a picture in another size. */
export interface PictureMaker {
  /** Undefined if the query asks for the file as it is. Clients share what it can make at a time. */
  shown(
    query: Query,
    accept: string | undefined,
    file: StoredFile,
    mayAnySize: boolean,
    client: string,
  ): Promise<ShownPicture | undefined>;
  close(): void;
}

export interface ShownPicture {
  readonly file: StoredFile;
  /** The answer depends on the header `Accept`. */
  readonly isNegotiated: boolean;
}

export interface Upload {
  readonly policy: UploadPolicy;
  /** Keeps the idempotency keys of one client or route apart from those of another. */
  readonly scope: string;
  /** The client whose quota of unfinished bytes the upload uses; asked for if it uses any. */
  readonly client: () => string;
  /** Claim of a permission that is valid for one upload. */
  readonly mark?: Buffer | undefined;
  readonly quota?: UploadQuota | undefined;
}

export interface Reading extends Partial<Presentation> {
  /** Of the request; default: that of its URL. */
  readonly query?: Query;
  /** The client wants to download the file; otherwise the parameter `download` decides. */
  readonly download?: boolean | undefined;
  /** The URL is signed: its pictures may have any size. */
  readonly isSigned?: boolean | undefined;
  /** Default: the address of the connection. */
  readonly client?: () => string;
}

/** Of an upload without a key. */
const FIRST = { replayed: false, isShared: true };

export class Files {
  readonly store: Store;
  readonly onError: OnError;
  /** Bytes of downloads that clients have not read yet. */
  readonly unsent: UnsentBytes;
  readonly #parts: UploadParts;
  readonly #room: ClientRoom;
  readonly #repeats: IdempotentUploads;
  readonly #presentation: FilesOptions['presentation'];
  readonly #pictures: PictureMaker | undefined;
  #resuming: Promise<ResumableUploads> | undefined;

  constructor({ store, limits, presentation, marks, pictures, onError }: FilesOptions) {
    this.store = store;
    this.onError = onError ?? console.error;
    this.#pictures = pictures;
    this.unsent = new UnsentBytes(limits);
    this.#parts = { store, limits, guard: new ProgressGuard(limits) };
    this.#room = new ClientRoom(limits.maxClientBytes);
    this.#repeats = new IdempotentUploads(this.#parts, marks);
    this.#presentation = presentation;
  }

  /** The files of an upload with this mark, for another server that received it again. */
  knownUpload(mark: Buffer, withinMs: number): Promise<readonly Receipt[]> {
    return this.#repeats.known(mark, withinMs);
  }

  /**
   * POST. Rejects with ProblemError or the store's error; then call `refuse` or `closeIfUnread`.
   */
  async upload(
    request: IncomingMessage,
    response: ServerResponse,
    upload: Upload,
  ): Promise<Stored> {
    const once = this.#repeats.markOf(request, upload);
    if (!once) {
      return { receipts: await this.#receive(request, response, upload), ...FIRST };
    }
    const isGiven = upload.mark !== undefined;
    return this.#repeats.run(request, response, once, isGiven, () =>
      this.#receive(request, response, upload, once),
    );
  }

  #receive(
    request: IncomingMessage,
    response: ServerResponse,
    { policy, client, quota }: Upload,
    once?: Buffer,
  ): Promise<Receipt[]> {
    const { store, limits, guard } = this.#parts;
    return receiveUpload(request, response, {
      store,
      limits,
      guard,
      policy,
      once,
      quota,
      room: () => this.#room.of(client()),
    });
  }

  /**
   * For one file an object and its Location, for several an array. `base`, here and below: what
   * precedes `/KEY` in the URL of a file.
   */
  uploaded({ receipts, replayed, isShared }: Stored, base: string): Answer {
    const stored = receipts.map((receipt) => partJson(receipt, base));
    const single = stored.length === 1 ? stored[0] : undefined;
    const answer = json(201, single ?? stored, 'no-store');
    if (single && 'url' in single) answer.headers.location = single.url;
    if (replayed) answer.headers['idempotency-replayed'] = 'true';
    if (!isShared) answer.headers['idempotency-scope'] = 'gateway';
    return answer;
  }

  /**
   * POST, HEAD, PATCH, DELETE and OPTIONS of resumable uploads (tus). The protocol is loaded at its
   * first use. Rejects with `invalid_option` if the store does not support them.
   */
  async resume(
    request: IncomingMessage,
    response: ServerResponse,
    asked: ResumableRequest,
  ): Promise<Answer> {
    const uploads = await this.#resumable();
    if (request.method === 'OPTIONS') return uploads.options();
    const answer = await uploads.handle(request, response, asked);
    this.closeIfUnread(request, response);
    return answer;
  }

  #resumable(): Promise<ResumableUploads> {
    const parts = { ...this.#parts, oneTime: this.#repeats };
    this.#resuming ??= import('./resumable/resumable.js').then(
      ({ ResumableUploads: Uploads }) => new Uploads(parts),
    );
    return this.#resuming;
  }

  /** GET and HEAD. Rejects with the store's errors, `range_not_satisfiable`, `precondition_failed`. */
  async read(request: IncomingMessage, file: StoredFile, reading: Reading = {}): Promise<Answer> {
    if (!this.#pictures) return this.#answer(request, file, reading);
    const { headers, socket } = request;
    const { isSigned = false, client = () => socket.remoteAddress ?? '' } = reading;
    const { query = queryOf(request.url ?? '') } = reading;
    const { accept } = headers;
    const picture = await this.#pictures.shown(query, accept, file, isSigned, client());
    if (!picture) return this.#answer(request, file, reading);
    // Name and type in the path are those of the original.
    const { name, type } = picture.file;
    const answer = await this.#answer(request, picture.file, { ...reading, query, name, type });
    if (!picture.isNegotiated) return answer;
    return { ...answer, headers: { ...answer.headers, vary: 'Accept' } };
  }

  async #answer(request: IncomingMessage, file: StoredFile, reading: Reading): Promise<Answer> {
    const { method = 'GET', headers, url = '', socket } = request;
    const { query = queryOf(url), download = query.download !== undefined } = reading;
    const server = this.#presentation;
    // Written out: copying objects took as long as all else here.
    const presentation: Presentation = {
      type: reading.type ?? file.type,
      name: reading.name ?? file.name,
      immutable: reading.immutable ?? true,
      private: reading.private ?? server?.private,
      freshSeconds: reading.freshSeconds,
      inlineTypes: reading.inlineTypes ?? server?.inlineTypes,
      isBare: reading.isBare,
      resourcePolicy: reading.resourcePolicy ?? server?.resourcePolicy,
    };
    return answerFile({ method, headers, download }, file, presentation, {
      unsent: this.unsent,
      isGone: () => socket.destroyed,
    });
  }

  /** GET and HEAD of a file's facts. */
  async info({ method }: IncomingMessage, key: string, base: string): Promise<Answer> {
    return this.#told(method, receiptJson(await this.store.stat(key), base));
  }

  /** GET and HEAD of the files of the upload with this Idempotency-Key. */
  async once(
    { method }: IncomingMessage,
    scope: string,
    key: string,
    withinMs: number | undefined,
    base: string,
  ): Promise<Answer> {
    const receipts = await this.store.findOnce(uploadMark(scope, key), { withinMs });
    return this.#told(
      method,
      receipts.map((receipt) => partJson(receipt, base)),
    );
  }

  /** GET and HEAD of a listing. */
  async list({ method }: IncomingMessage, options: ListOptions, base: string): Promise<Answer> {
    const { files, ...rest } = await this.store.list(options);
    return this.#told(method, { files: files.map((each) => receiptJson(each, base)), ...rest });
  }

  /** GET and HEAD of the groups. */
  async groups({ method }: IncomingMessage, options: GroupOptions): Promise<Answer> {
    return this.#told(method, await this.store.groups(options));
  }

  answer(value: unknown): Answer {
    return json(200, value, 'no-store');
  }

  #told(method: string | undefined, value: unknown): Answer {
    const { content, ...head } = json(200, value, 'no-cache');
    return method === 'HEAD' ? head : { ...head, content };
  }

  /** DELETE. */
  async remove(id: string, options?: Pick<GetOptions, 'onlyHere'>): Promise<Answer> {
    await this.store.delete(id, options);
    return { status: 204, headers: {} };
  }

  /** Sends the answer with additional headers. `onError` in place of that of all answers. */
  send(
    response: ServerResponse,
    { status, headers, content }: Answer,
    others: OutgoingHttpHeaders = {},
    onError = this.onError,
  ): void {
    const isPaced = typeof content === 'object' && !Buffer.isBuffer(content);
    // Even if somebody else has answered meanwhile.
    if (isPaced) whenClosed(response, () => content.close());
    sendHead(response, status, headers, others);
    if (isPaced) {
      content.send(response, onError);
      return;
    }
    response.end(content);
    if (content) this.unsent.watch(response, content.length);
  }

  /** Answers with a problem. */
  refuse(
    request: IncomingMessage,
    response: ServerResponse,
    error: unknown,
    others: OutgoingHttpHeaders = {},
  ): void {
    if (response.headersSent || request.socket.destroyed) {
      response.destroy();
      return;
    }
    const { status, headers, content } = problemAnswer(toProblem(error));
    this.closeIfUnread(request, response);
    sendHead(response, status, headers, others);
    response.end(request.method === 'HEAD' ? undefined : content);
  }

  /**
   * Closes the connection after the answer if bytes of the request's body may still arrive. One of
   * HTTP/2 carries other requests, too.
   */
  closeIfUnread(request: IncomingMessage, response: ServerResponse): void {
    if (request.httpVersionMajor > 1 || !hasUnreadBody(request) || response.headersSent) return;
    response.setHeader('connection', 'close');
    closeAfterReply(request.socket, this.#parts.limits);
  }

  close(): void {
    this.#parts.guard.close();
    this.unsent.close();
    this.#pictures?.close();
  }
}

/**
 * Header by header: middleware of other authors wraps `writeHead` without knowing all of its forms,
 * and reads the headers of a response.
 */
function sendHead(
  response: ServerResponse,
  status: number,
  headers: Answer['headers'],
  others: OutgoingHttpHeaders,
): void {
  for (const [name, value] of Object.entries(others)) {
    if (value !== undefined) response.setHeader(name, value);
  }
  const vary = response.getHeader('vary');
  for (const [name, value] of Object.entries(headers)) {
    const isJoined = name === 'vary' && vary !== undefined;
    response.setHeader(name, isJoined ? `${vary}, ${value}` : value);
  }
  response.writeHead(status);
}

function json(status: number, value: unknown, cacheControl: string) {
  // Text, not bytes: Node sends it together with the head.
  const content = JSON.stringify(value);
  const headers: Record<string, string> = {
    'cache-control': cacheControl,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(content)),
    'x-content-type-options': 'nosniff',
  };
  return { status, headers, content };
}
