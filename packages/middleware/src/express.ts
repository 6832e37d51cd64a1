/**
 * Middleware for Express.
 *
 * @module @stevedore/middleware/express
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Receipt, Store } from '@stevedore/client';
import { isProblem, type ProblemCode, ProblemError } from './core/problems.js';
import type { UploadRules } from './core/upload/policy.js';
import { asHttpError, type FilesOptions, MountedFiles } from './mounted-files.js';

/**
 * For Express 4 and 5, and frameworks that accept its middleware. Errors go to `next`, with the
 * `status` and `headers` that Express answers with; `problems()` answers them as problem+json
 * instead.
 */

export { type HandlerOptions, httpHandler as files } from './http.js';
export type { FilesOptions, UploadRules };

declare global {
  namespace Express {
    interface Request {
      /**
       * Set by `upload`, for the handlers behind it: one receipt per file, in the order of the form.
       */
      stored: readonly Receipt[];
    }
  }
}

type Next = (error?: unknown) => void;

/** The additions of Express to node's request that are used here. */
interface ExpressRequest extends IncomingMessage {
  stored?: readonly Receipt[];
  readonly params?: Readonly<Record<string, unknown>>;
}

export type Middleware = (request: ExpressRequest, response: ServerResponse, next: Next) => void;

type Options = Omit<FilesOptions, 'store'>;

/**
 * Stores the request's files, then calls the next handler with the receipts in `request.stored`.
 */
export function upload(store: Store, policy: UploadRules = {}, options: Options = {}): Middleware {
  const files = new MountedFiles({ ...options, store, policy });
  return (request, response, next) => {
    files.receive(request, response).then(
      ({ receipts }) => {
        request.stored = receipts;
        next();
      },
      (error: unknown) => {
        files.closeIfUnread(request, response);
        next(asHttpError(error));
      },
    );
  };
}

export interface DownloadOptions extends Omit<Options, 'policy' | 'limits'> {
  /** Name of the route's parameter that holds the key; default `key`. */
  readonly parameter?: string;
}

/** Sends the file whose key the route's parameter holds. */
export function download(store: Store, options: DownloadOptions = {}): Middleware {
  const { parameter = 'key', ...rest } = options;
  const files = new MountedFiles({ ...rest, store });
  return (request, response, next) => {
    files
      .sendFile(request, response, keyOf(request, parameter))
      .catch((error: unknown) => next(asHttpError(error)));
  };
}

/** Deletes the file whose key the route's parameter holds; answers 204. */
export function remove(store: Store, options: { readonly parameter?: string } = {}): Middleware {
  return (request, response, next) => {
    store.delete(keyOf(request, options.parameter ?? 'key')).then(
      () => {
        response.statusCode = 204;
        response.end();
      },
      (error: unknown) => next(asHttpError(error)),
    );
  };
}

/** Answers errors of these handlers, and multer's, as problem+json; passes on all others. */
export function problems(store: Store) {
  const files = new MountedFiles({ store });
  return (error: unknown, request: ExpressRequest, response: ServerResponse, next: Next): void => {
    const problem = isProblem(error) ? error : multerProblem(error);
    if (problem && problem.code !== 'internal') {
      files.refuse(request, response, problem);
    } else {
      next(error);
    }
  };
}

function keyOf(request: ExpressRequest, parameter: string): string {
  return String(request.params?.[parameter] ?? '');
}

/**
 * multer's own refusals, by its `limits` or for a malformed form. Its errors have no status, so
 * Express would take them for failures of the server.
 */

const CODES: Readonly<Record<string, ProblemCode>> = {
  LIMIT_FILE_SIZE: 'too_large',
  LIMIT_FILE_COUNT: 'too_many_files',
  LIMIT_PART_COUNT: 'too_many_parts',
  LIMIT_FIELD_COUNT: 'too_many_parts',
  LIMIT_FIELD_VALUE: 'field_too_large',
  LIMIT_FIELD_KEY: 'part_headers_too_large',
};

/** Errors of multer's parser; they have no code. */
const MALFORMED =
  /^(?:Unexpected end of form|Malformed part header|Multipart: Boundary not found)$/;

/** Undefined if the error is not multer's, or not the client's fault. */
function multerProblem(error: unknown): ProblemError | undefined {
  const { name, message = '' } = (error ?? {}) as Partial<Error>;
  if (name === 'MulterError') {
    const { code, field } = error as { readonly code?: string; readonly field?: string };
    const detail = field === undefined ? `${message}.` : `${message}: ${field}.`;
    return new ProblemError(CODES[code ?? ''] ?? 'malformed_multipart', detail, error);
  }
  return MALFORMED.test(message)
    ? new ProblemError('malformed_multipart', `${message}.`, error)
    : undefined;
}
