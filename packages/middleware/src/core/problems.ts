import { STATUS_CODES } from 'node:http';
import { isStoreError, type StoreErrorCode, storeErrorOf } from '@stevedore/client/connect';

/**
 * Every error that can answer a request: its stable code, its HTTP status and, for server errors,
 * the only text that clients see. The codes of the store's errors are codes here too.
 */

interface ProblemSpec {
  readonly status: number;
  /** Sent instead of the error's message: server errors reveal nothing internal. */
  readonly detail?: string;
  readonly retryAfterSeconds?: number;
  /** The operator must learn of it, as of every 500: log it. */
  readonly isFault?: true;
}

const INTERNAL: ProblemSpec = { status: 500, detail: 'Something went wrong inside the server.' };
const RETRY_SECONDS = 10;

const storeProblems = {
  // Never sent: the client is gone. The number is the one proxies log for it.
  aborted: { status: 499, detail: 'The client closed the connection.' },
  client_room_exceeded: { status: 429, retryAfterSeconds: RETRY_SECONDS },
  closed: { status: 503, detail: 'The server is shutting down.', retryAfterSeconds: 5 },
  container_full: {
    status: 507,
    detail: 'The container is full. Acknowledged files are safe; retry later.',
    retryAfterSeconds: RETRY_SECONDS,
  },
  corrupt: { status: 500, detail: 'No copy of the file has the right checksum.' },
  directory_locked: INTERNAL,
  directory_unusable: INTERNAL,
  disk_failed: {
    status: 503,
    detail: "The server's disk failed. Acknowledged files are safe; retry later.",
    retryAfterSeconds: RETRY_SECONDS,
    isFault: true,
  },
  disk_full: {
    status: 507,
    detail: 'The disk is full. Acknowledged files are safe; retry later.',
    retryAfterSeconds: RETRY_SECONDS,
  },
  filemap_locked: {
    status: 503,
    detail: 'Another program on the server holds a lock on the FileMap.',
    retryAfterSeconds: RETRY_SECONDS,
    isFault: true,
  },
  invalid_id: { status: 404 },
  invalid_option: { status: 400 },
  length_mismatch: { status: 400 },
  // Neither 404 nor 410: no cache and no app may take it for deleted.
  missing_in_fastdfs: {
    status: 500,
    detail: 'FastDFS no longer has the file, and nobody deleted it here.',
  },
  not_found: { status: 404, detail: 'There is no such file.' },
  offset_mismatch: { status: 409 },
  overloaded: {
    status: 503,
    detail: 'The server is out of open files, memory or ports.',
    retryAfterSeconds: 1,
    isFault: true,
  },
  partner_away: {
    status: 503,
    detail: 'The gateway that keeps the second copy is unreachable.',
    retryAfterSeconds: RETRY_SECONDS,
  },
  port_in_use: INTERNAL,
  range_not_satisfiable: { status: 416 },
  refused: { status: 502, detail: 'The gateway behind this server refuses the request.' },
  storage_unavailable: {
    status: 503,
    detail: 'No storage node answers at the moment.',
    retryAfterSeconds: RETRY_SECONDS,
  },
  too_large: { status: 413 },
  too_many_unfinished: { status: 429, retryAfterSeconds: RETRY_SECONDS },
  unsupported: {
    status: 501,
    detail: 'The storage cannot delete one slice of a trunk that was written elsewhere.',
  },
} satisfies Record<Exclude<StoreErrorCode, 'body_used'>, ProblemSpec>;

const ownProblems = {
  bad_request: { status: 400 },
  body_too_slow: { status: 408 },
  // tus defines this number.
  checksum_mismatch: { status: 460 },
  cross_site: { status: 403 },
  digest_mismatch: { status: 400 },
  field_too_large: { status: 413 },
  forbidden: { status: 403 },
  header_timeout: { status: 408 },
  headers_too_large: { status: 431 },
  host_not_served: { status: 421 },
  idempotency_key_reused: { status: 422 },
  internal: INTERNAL,
  invalid_digest: { status: 400 },
  invalid_expiry: { status: 400 },
  invalid_file_id: { status: 400 },
  invalid_idempotency_key: { status: 400 },
  invalid_key: { status: 400 },
  invalid_media_type: { status: 415 },
  invalid_name: { status: 400 },
  length_required: { status: 411 },
  malformed_multipart: { status: 400 },
  method_not_allowed: { status: 405 },
  no_file: { status: 400 },
  part_headers_too_large: { status: 413 },
  picture_broken: { status: 422 },
  picture_size_not_allowed: { status: 403 },
  picture_too_costly: { status: 422 },
  picture_unsupported: { status: 415 },
  pictures_busy: { status: 503, detail: 'Too many pictures are being made.', retryAfterSeconds: 1 },
  precondition_failed: { status: 412 },
  quota_exceeded: { status: 429 },
  rate_limited: { status: 429 },
  route_not_found: { status: 404 },
  shutting_down: { status: 503, detail: 'The server is shutting down.', retryAfterSeconds: 5 },
  signature_expired: { status: 403 },
  signature_invalid: { status: 403 },
  token_invalid: { status: 400 },
  token_required: { status: 400 },
  too_many_files: { status: 413 },
  too_many_parts: { status: 413 },
  tus_not_supported: {
    status: 501,
    detail:
      'This path accepts a whole file as the body of one POST. Start resumable uploads (Tus-Resumable) at /uploads.',
  },
  tus_version: { status: 412 },
  type_mismatch: { status: 415 },
  type_not_allowed: { status: 415 },
  unauthorized: { status: 401 },
  unsupported_digest: { status: 400 },
  unsupported_encoding: { status: 415 },
  unsupported_transfer_coding: {
    status: 501,
    detail: 'Only the transfer coding chunked is supported.',
  },
  upload_under_way: { status: 409, retryAfterSeconds: 1 },
} satisfies Record<string, ProblemSpec>;

export type ProblemCode = keyof typeof ownProblems | keyof typeof storeProblems;

const problems: Readonly<Record<ProblemCode, ProblemSpec>> = { ...storeProblems, ...ownProblems };

/** Names from RFC 9110, where Node has older ones. */
const TITLES: Readonly<Record<number, string>> = {
  ...STATUS_CODES,
  413: 'Content Too Large',
  422: 'Unprocessable Content',
  460: 'Checksum Mismatch',
  499: 'Client Closed Request',
} as Record<number, string>;

/** An error that is an answer: thrown anywhere, sent by the error handler. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError';
  readonly code: ProblemCode;
  /** Sent with the answer; lower-case names. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ProblemCode,
    message: string,
    cause?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.headers = headers;
  }
}

/** The body of a problem+json answer (RFC 9457), with `code` as its extension. */
export interface ProblemBody {
  readonly type: 'about:blank';
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ProblemCode;
}

export const PROBLEM_TYPE = 'application/problem+json';

export function problemBody(code: ProblemCode, message: string): ProblemBody {
  const { status, detail = message } = problems[code];
  return { type: 'about:blank', title: TITLES[status] ?? 'Error', status, detail, code };
}

/** Codes, for the documentation and its test. */
export function problemCodes(): readonly ProblemCode[] {
  return Object.keys(problems) as ProblemCode[];
}

/** By its name, not its class: a program may load two copies of the package. */
export function isProblem(error: unknown): error is ProblemError {
  const { name, code = '' } = (error ?? {}) as Partial<ProblemError>;
  return name === 'ProblemError' && Object.hasOwn(problems, code);
}

/**
 * The problem that answers an error. A mistake of the app, or an unknown error, is `internal`; no
 * error of the system is.
 */
export function toProblem(error: unknown): ProblemError {
  if (isProblem(error)) return error;
  const known = storeErrorOf(error);
  if (isStoreError(known) && Object.hasOwn(problems, known.code)) {
    return new ProblemError(known.code as ProblemCode, known.message, error);
  }
  return new ProblemError('internal', 'internal', error);
}

/** True for an error to log: the client cannot mend it, and its answer does not say all. */
export function isFault(code: ProblemCode): boolean {
  const { status, isFault = status === 500 } = problems[code];
  return isFault;
}

/** A problem as an answer, with its JSON as bytes. */
export function problemAnswer(problem: ProblemError) {
  const { code, message } = problem;
  const body = problemBody(code, message);
  const content = Buffer.from(JSON.stringify(body));
  const retryAfter = problem.headers['retry-after'] ?? problems[code].retryAfterSeconds;
  return {
    body,
    status: body.status,
    headers: {
      ...problem.headers,
      ...(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }),
      'content-type': PROBLEM_TYPE,
      'content-length': String(content.length),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    },
    content,
  };
}

/** `allow` names the methods of the path. */
export function methodNotAllowed(method: string | undefined, allow: string): ProblemError {
  const message = `${method} is not allowed here; use ${allow}.`;
  return new ProblemError('method_not_allowed', message, undefined, { allow });
}
