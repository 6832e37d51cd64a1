import { randomBytes } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Receipt, Store } from '@stevedore/client';
import { Files, type OnError, type PictureMaker } from './core/files.js';
import { Turns } from './core/http/connection.js';
import { essence } from './core/http/content-headers.js';
import type { Answer, ResourcePolicy } from './core/http/file-answer.js';
import { defaultTransferLimits, type TransferLimits } from './core/limits.js';
import { isFault, ProblemError, problemAnswer, toProblem } from './core/problems.js';
import { checkKey } from './core/receipts.js';
import type { Stored } from './core/upload/idempotency.js';
import { Rules, type UploadRules } from './core/upload/policy.js';
import { warnOfRequestTimeout } from './request-timeout.js';

/**
 * Files as a route of another app, under one policy, with one request of a connection at a time.
 */

export interface FilesOptions {
  readonly store: Store;
  /** Sizes, types, counts, durability, group, time to live. */
  readonly policy?: UploadRules;
  /** Bounds of bodies and of downloads; `maxFileBytes` is the policy's business. */
  readonly limits?: Partial<Omit<TransferLimits, 'maxFileBytes'>>;
  /** Types displayed inline although a browser might run them, such as `text/html`. */
  readonly inlineTypes?: readonly string[];
  /** Marks answers with files `private`: only the browser may cache them. Default: false. */
  readonly private?: boolean;
  /** `Cross-Origin-Resource-Policy` of files: which pages may display them; default `same-site`. */
  readonly resourcePolicy?: ResourcePolicy;
  /** Serves pictures in other sizes: `new Pictures(…)` of `@stevedore/pictures`. */
  readonly pictures?: PictureMaker;
  /**
   * Called with the server's own errors, of which clients see no more than `internal` or `corrupt`,
   * and with those that end a download early. Default: `console.error`. Errors that go to the app's
   * framework are its own to log.
   */
  readonly onError?: OnError;
}

/** Idempotency keys of different routes are kept apart. */
let scopes = 0;

export class MountedFiles extends Files {
  readonly #rules: Rules;
  readonly #turns = new Turns();
  readonly #scope: string;

  /** Throws `invalid_option` for an invalid policy. */
  constructor(options: FilesOptions) {
    const { store, private: isPrivate = false, resourcePolicy = 'same-site' } = options;
    super({
      store,
      pictures: options.pictures,
      onError: options.onError,
      limits: Object.freeze({ ...defaultTransferLimits, ...options.limits }),
      presentation: {
        private: isPrivate,
        inlineTypes: new Set(options.inlineTypes),
        resourcePolicy,
      },
    });
    this.#rules = new Rules(options.policy);
    scopes += 1;
    this.#scope = `middleware ${scopes}`;
  }

  /** Stores the request's files. Rejects as `upload` does. */
  async receive(request: IncomingMessage, response: ServerResponse): Promise<Stored> {
    warnOfRequestTimeout(request);
    await this.#itsTurn(request, response);
    const { headers, socket } = request;
    const isForm = essence(headers['content-type'] ?? '') === 'multipart/form-data';
    const policy = this.#rules.of(
      request,
      isForm ? randomBytes(12).toString('base64url') : undefined,
    );
    const client = () => socket.remoteAddress ?? '';
    return this.upload(request, response, { policy, scope: this.#scope, client });
  }

  /** True for a request of a resumable upload (tus), which `proceed` answers. */
  isResumable({ method, headers }: IncomingMessage): boolean {
    if (this.store.unfinished === undefined) return false;
    return method === 'PATCH' || method === 'OPTIONS' || headers['tus-resumable'] !== undefined;
  }

  /**
   * Creates such an upload at the path of the files, or continues that of `key`: its URL is that of
   * the file that it becomes.
   */
  async proceed(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    {
      key,
      onStored,
    }: { readonly key?: string | undefined; readonly onStored?: (receipt: Receipt) => unknown },
  ): Promise<Answer> {
    warnOfRequestTimeout(request);
    await this.#itsTurn(request, response);
    return this.resume(request, response, {
      path,
      filesPath: path,
      scope: this.#scope,
      policy: this.#rules.of(request, undefined),
      client: request.socket.remoteAddress ?? '',
      id: key === undefined ? undefined : checkKey(key),
      onStored: async (receipt) => {
        await onStored?.(receipt);
      },
    });
  }

  /** Answers a GET or HEAD of a file; `others` are additional headers. `onError` as that of `send`. */
  async sendFile(
    request: IncomingMessage,
    response: ServerResponse,
    key: string,
    others: () => OutgoingHttpHeaders = () => ({}),
    onError = this.onError,
  ): Promise<void> {
    await this.#itsTurn(request, response);
    const answer = await this.read(request, await this.store.get(checkKey(key)));
    // An app that compresses answers would keep ETag and ranges, which are of the stored bytes.
    const cacheControl = `${answer.headers['cache-control']}, no-transform`;
    const headers = { ...answer.headers, 'cache-control': cacheControl };
    this.send(response, { ...answer, headers }, others(), onError);
  }

  override refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const { code } = toProblem(error);
    if (isFault(code)) this.onError(error);
    super.refuse(request, response, error);
  }

  async #itsTurn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const turn = this.#turns.wait(request, response);
    if (!turn || (await turn)) return;
    throw new ProblemError('aborted', 'The client closed the connection.');
  }
}

/** An error as frameworks expect it: with `status`, and headers for the answer. */
export function asHttpError(error: unknown): ProblemError {
  const problem = toProblem(error);
  const { status, headers, body } = problemAnswer(problem);
  const { 'content-length': _, 'content-type': __, ...rest } = headers;
  // For logs: the original stack, not that of the conversion.
  const { stack } = (problem.cause ?? {}) as { readonly stack?: string };
  if (status >= 500 && stack !== undefined) problem.stack = stack;
  return Object.assign(problem, {
    // Frameworks send the message to the client; internal details are in `cause`.
    message: body.detail,
    expose: status < 500,
    headers: rest,
  });
}
