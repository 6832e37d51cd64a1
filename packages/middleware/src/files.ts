import { randomBytes } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { FileStore, Receipt } from '@stevedore/client';
import { closeAfterReply, hasUnreadBody, Turns } from './core/http/connection.js';
import { DEFAULT_TYPE, essence } from './core/http/content-headers.js';
import { answerFile, type ResourcePolicy, sendAnswer } from './core/http/file-answer.js';
import { checkKey } from './core/http/receipt-json.js';
import { UnsentBytes, type UnsentLimits } from './core/http/unsent-bytes.js';
import { type BodyLimits, defaultBodyLimits, defaultUnsentLimits } from './core/limits.js';
import { ProblemError, problemAnswer, toProblem } from './core/problems.js';
import { ClientRoom, ProgressGuard } from './core/upload/client-bounds.js';
import { IdempotentUploads } from './core/upload/idempotency.js';
import { Rules, typeProblem, type UploadRules } from './core/upload/policy.js';
import { receiveUpload } from './core/upload/receive.js';

/**
 * Uploads and downloads over node's own request and response: what every adapter
 * is made of. An upload that fails, or whose client goes, leaves nothing behind.
 */

export interface FilesOptions {
  readonly store: FileStore;
  /** Sizes, types, counts, durability, group, time to live. */
  readonly policy?: UploadRules;
  /** Bounds of bodies and of downloads; `maxFileBytes` is the policy's business. */
  readonly limits?: Partial<Omit<BodyLimits & UnsentLimits, 'maxFileBytes'>>;
  /** Types shown in place although a browser might run them, such as `text/html`. */
  readonly inlineTypes?: readonly string[];
  /** Answers with files are kept by the browser that asked alone; default false. */
  readonly private?: boolean;
  /** `Cross-Origin-Resource-Policy` of files: whose pages may show them; default `same-site`. */
  readonly resourcePolicy?: ResourcePolicy;
}

/** Repetitions of different routes must not meet. */
let scopes = 0;

export class Files {
  readonly store: FileStore;
  readonly #rules: Rules;
  readonly #limits: BodyLimits;
  readonly #guard: ProgressGuard;
  readonly #room: ClientRoom;
  readonly #turns = new Turns();
  readonly #unsent: UnsentBytes;
  readonly #repeats: IdempotentUploads;
  readonly #scope: string;
  readonly #inlineTypes: ReadonlySet<string>;
  readonly #private: boolean;
  readonly #resourcePolicy: ResourcePolicy;

  /** Throws `invalid_option` for a policy that is none. */
  constructor(options: FilesOptions) {
    this.store = options.store;
    this.#rules = new Rules(options.policy);
    const limits = { ...defaultBodyLimits, ...defaultUnsentLimits, ...options.limits };
    this.#limits = Object.freeze(limits);
    this.#unsent = new UnsentBytes(limits);
    this.#room = new ClientRoom(limits.maxClientBytes);
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
    this.#resourcePolicy = options.resourcePolicy ?? 'same-site';
  }

  /**
   * Stores what the request brings: one receipt for a raw body, one a file for a form.
   * Rejects with ProblemError or the store's error; `refuse` or `prepare` comes next.
   */
  async receive(request: IncomingMessage, response: ServerResponse): Promise<Receipt[]> {
    await this.#itsTurn(request, response);
    const form = isForm(request) ? randomBytes(12).toString('base64url') : undefined;
    const policy = this.#rules.of(request, form);
    if (request.readableDidRead) {
      // A parser took it for its type: where that is none of ours, the client is to blame.
      throw (
        (!form && typeProblem(request.headers['content-type'] ?? DEFAULT_TYPE, policy)) ||
        new Error('the body was read before the upload; put it ahead of body parsers')
      );
    }
    const room = this.#room.of(request.socket.remoteAddress ?? '');
    const context = { store: this.store, limits: this.#limits, guard: this.#guard, policy, room };
    const { receipts } = await this.#repeats.run(request, response, this.#scope, (once) =>
      receiveUpload(request, response, { ...context, once }),
    );
    return receipts;
  }

  /** Answers a GET or HEAD of a file; `others` are headers beside its own. */
  async send(
    request: IncomingMessage,
    response: ServerResponse,
    key: string,
    others: () => OutgoingHttpHeaders = () => ({}),
  ): Promise<void> {
    await this.#itsTurn(request, response);
    const file = await this.store.get(checkKey(key));
    const { method = 'GET', headers } = request;
    const presentation = {
      type: file.type,
      name: file.name,
      immutable: true,
      private: this.#private,
      inlineTypes: this.#inlineTypes,
      resourcePolicy: this.#resourcePolicy,
    };
    const asked = { method, headers, download: wantsDownload(request.url) };
    const pace = { unsent: this.#unsent, isGone: () => request.socket.destroyed };
    const answer = await answerFile(asked, file, presentation, pace);
    sendAnswer(response, answer, this.#unsent, others());
  }

  async #itsTurn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const turn = this.#turns.wait(request, response);
    if (!turn || (await turn)) return;
    throw new ProblemError('aborted', 'The client closed the connection.');
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
