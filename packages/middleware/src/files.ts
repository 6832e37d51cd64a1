import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';
import type { FileStore, Receipt } from '@stevedore/client';
import { answerFile, type FileAnswer } from './core/http/file-answer.js';
import { checkKey } from './core/http/key.js';
import { closeAfterReply, hasUnreadBody } from './core/http/linger.js';
import { DEFAULT_TYPE, essence } from './core/http/media-type.js';
import { problemAnswer } from './core/http/problem-answer.js';
import { type BodyLimits, defaultBodyLimits } from './core/limits.js';
import { ProblemError, toProblem } from './core/problems.js';
import { IdempotentUploads } from './core/upload/idempotency.js';
import { typeProblem } from './core/upload/policy.js';
import { ProgressGuard } from './core/upload/progress-guard.js';
import { receiveUpload } from './core/upload/receive.js';
import { Rules, type UploadRules } from './rules.js';

/**
 * Uploads and downloads over node's own request and response: what every adapter
 * is made of. An upload that fails, or whose client goes, leaves nothing behind.
 */

export interface FilesOptions {
  readonly store: FileStore;
  /** Sizes, types, counts, durability, group, time to live. */
  readonly policy?: UploadRules;
  /** Bounds of bodies; `maxFileBytes` is the policy's business. */
  readonly limits?: Partial<Omit<BodyLimits, 'maxFileBytes'>>;
  /** Types shown in place although a browser might run them, such as `text/html`. */
  readonly inlineTypes?: readonly string[];
  /** Answers with files are kept by the browser that asked alone; default false. */
  readonly private?: boolean;
}

/** Repetitions of different routes must not meet. */
let scopes = 0;

export class Files {
  readonly store: FileStore;
  readonly #rules: Rules;
  readonly #limits: BodyLimits;
  readonly #guard: ProgressGuard;
  readonly #repeats: IdempotentUploads;
  readonly #scope: string;
  readonly #inlineTypes: ReadonlySet<string>;
  readonly #private: boolean;

  /** Throws `invalid_option` for a policy that is none. */
  constructor(options: FilesOptions) {
    this.store = options.store;
    this.#rules = new Rules(options.policy);
    this.#limits = Object.freeze({ ...defaultBodyLimits, ...options.limits });
    this.#guard = new ProgressGuard(this.#limits);
    this.#repeats = new IdempotentUploads({
      store: this.store,
      guard: this.#guard,
      limits: this.#limits,
    });
    scopes += 1;
    this.#scope = `middleware ${scopes}`;
    this.#inlineTypes = new Set(options.inlineTypes);
    this.#private = options.private ?? false;
  }

  /**
   * Stores what the request brings: one receipt for a raw body, one a file for a form.
   * Rejects with ProblemError or the store's error; `refuse` or `prepare` comes next.
   */
  async receive(request: IncomingMessage, response: ServerResponse): Promise<Receipt[]> {
    const form = isForm(request) ? randomBytes(12).toString('base64url') : undefined;
    const policy = this.#rules.of(request, form);
    if (request.readableDidRead) {
      // A parser took it for its type: where that is none of ours, the client is to blame.
      throw (
        (!form && typeProblem(request.headers['content-type'] ?? DEFAULT_TYPE, policy)) ||
        new Error('the body was read before the upload; put it ahead of body parsers')
      );
    }
    const context = { store: this.store, limits: this.#limits, guard: this.#guard, policy };
    const { receipts, replayed } = await this.#repeats.run(request, this.#scope, (once) =>
      receiveUpload(request, response, { ...context, once }),
    );
    if (replayed) this.prepare(request, response);
    return receipts;
  }

  /** The answer to a GET or HEAD of a file. */
  async answer(request: IncomingMessage, key: string): Promise<FileAnswer> {
    const file = await this.store.get(checkKey(key));
    const { method = 'GET', headers } = request;
    return answerFile({ method, headers, download: wantsDownload(request.url) }, file, {
      type: file.type,
      name: file.name,
      immutable: true,
      private: this.#private,
      inlineTypes: this.#inlineTypes,
    });
  }

  async send(request: IncomingMessage, response: ServerResponse, key: string): Promise<void> {
    const { status, headers, content } = await this.answer(request, key);
    response.writeHead(status, headers);
    if (content === undefined || Buffer.isBuffer(content)) response.end(content);
    // A failure of either side ends the other: no half file looks like a whole one.
    else pipeline(content, response, () => {});
  }

  /** Answers with a problem. */
  refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    if (response.headersSent || request.socket.destroyed) {
      response.destroy();
      return;
    }
    const { status, headers, body } = problemAnswer(toProblem(error));
    this.prepare(request, response);
    response.writeHead(status, headers);
    response.end(request.method === 'HEAD' ? undefined : body);
  }

  /** Before any answer to a request whose body may still be under way. */
  prepare(request: IncomingMessage, response: ServerResponse): void {
    if (!hasUnreadBody(request) || response.headersSent) return;
    response.setHeader('connection', 'close');
    closeAfterReply(request.socket, this.#limits);
  }
}

/** An error with what frameworks look for in one: `status`, and headers for the answer. */
export function asHttpError(error: unknown): ProblemError {
  const problem = toProblem(error);
  const { status, headers, body } = problemAnswer(problem);
  const { 'content-length': _, 'content-type': __, ...rest } = headers;
  const { detail } = JSON.parse(body.toString()) as { readonly detail: string };
  // What logs show: where it happened, and not where it was turned into an answer.
  if (problem.code === 'internal' && problem.cause instanceof Error && problem.cause.stack) {
    problem.stack = problem.cause.stack;
  }
  return Object.assign(problem, {
    // Frameworks send it to the client; what happened inside is in `cause`.
    message: detail,
    status,
    statusCode: status,
    expose: status < 500,
    headers: rest,
  });
}

function isForm({ headers }: IncomingMessage): boolean {
  return essence(headers['content-type'] ?? '') === 'multipart/form-data';
}

/** `?download`, with any value. */
function wantsDownload(url = ''): boolean {
  return /[?&]download(?:[=&]|$)/.test(url);
}

export function methodNotAllowed(method: string | undefined, allow: string): ProblemError {
  const message = `${method} is not possible here; ${allow} is.`;
  return new ProblemError('method_not_allowed', message, undefined, { allow });
}
