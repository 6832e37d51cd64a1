import { STATUS_CODES } from 'node:http';
import { isStoreError, type StoreErrorCode } from '@stevedore/client/connect';
import { storeErrorOf } from '@stevedore/client/connect/internal';

/**
 * Every error that can answer a request: its stable code, its HTTP status and, for server errors,
 * the only text that clients see. The codes of the store's errors are codes here too.
 */

interface ProblemSpec {
  readonly status: number;
  /** Sent instead of the error's message: server errors reveal nothing internal. */
  readonly detail?: string | undefined;
  readonly retryAfterSeconds?: number | undefined;
  /** The operator must learn of it: log it. */
  readonly isFault?: boolean;
}

/** A server's error, or one that passes. Without `detail` the error's own message is sent. */
function told(
  status: number,
  detail?: string,
  retryAfterSeconds?: number,
  isFault = status === 500,
): ProblemSpec {
  return { status, detail, retryAfterSeconds, isFault };
}

const INTERNAL = told(500, 'Something went wrong inside the server.');
const RETRY_SECONDS = 10;

/** By code; a number alone is the status of a refusal that is sent with its own message. */
const table = {
  // Never sent: the client is gone. The number is the one proxies log for it.
  aborted: told(499, 'The client closed the connection.'),
  bad_request: 400,
  body_too_slow: 408,
  // tus defines this number.
  checksum_mismatch: 460,
  client_room_exceeded: told(429, undefined, RETRY_SECONDS),
  closed: told(503, 'The server is shutting down.', 5),
  container_full: told(
    507,
    'The container is full. Acknowledged files are safe; retry later.',
    RETRY_SECONDS,
  ),
  corrupt: told(500, 'No copy of the file has the right checksum.'),
  cross_site: 403,
  digest_mismatch: 400,
  directory_locked: INTERNAL,
  directory_unusable: INTERNAL,
  disk_failed: told(
    503,
    "The server's disk failed. Acknowledged files are safe; retry later.",
    RETRY_SECONDS,
    true,
  ),
  disk_full: told(
    507,
    'The disk is full. Acknowledged files are safe; retry later.',
    RETRY_SECONDS,
  ),
  field_too_large: 413,
  filemap_locked: told(
    503,
    'Another program on the server holds a lock on the FileMap.',
    RETRY_SECONDS,
    true,
  ),
  forbidden: 403,
  header_timeout: 408,
  headers_too_large: 431,
  host_not_served: 421,
  idempotency_key_reused: 422,
  internal: INTERNAL,
  invalid_digest: 400,
  invalid_expiry: 400,
  invalid_file_id: 400,
  invalid_id: 404,
  invalid_idempotency_key: 400,
  invalid_key: 400,
  invalid_media_type: 415,
  invalid_name: 400,
  invalid_option: 400,
  length_mismatch: 400,
  length_required: 411,
  malformed_multipart: 400,
  method_not_allowed: 405,
  // Neither 404 nor 410: no cache and no app may take it for deleted.
  missing_in_fastdfs: told(500, 'FastDFS no longer has the file, and nobody deleted it here.'),
  no_file: 400,
  // Its text names trackers and storages: only those who may flush see it.
  not_flushed: told(503, undefined, RETRY_SECONDS),
  not_found: told(404, 'There is no such file.'),
  offset_mismatch: 409,
  overloaded: told(503, 'The server is out of open files, memory or ports.', 1, true),
  part_headers_too_large: 413,
  partner_away: told(503, 'The gateway that keeps the second copy is unreachable.', RETRY_SECONDS),
  picture_broken: 422,
  picture_size_not_allowed: 403,
  picture_too_costly: 422,
  picture_unsupported: 415,
  pictures_busy: told(503, 'Too many pictures are being made.', 1),
  port_in_use: INTERNAL,
  precondition_failed: 412,
  quota_exceeded: 429,
  range_not_satisfiable: 416,
  rate_limited: 429,
  refused: told(502, 'The gateway behind this server refuses the request.'),
  route_not_found: 404,
  shutting_down: told(503, 'The server is shutting down.', 5),
  signature_expired: 403,
  signature_invalid: 403,
  storage_unavailable: told(
    503,
    'The server that has the file, or is to take it, does not answer at the moment.',
    RETRY_SECONDS,
  ),
  token_invalid: 400,
  token_required: 400,
  too_large: 413,
  too_many_files: 413,
  too_many_parts: 413,
  too_many_unfinished: told(429, undefined, RETRY_SECONDS),
  tus_not_supported: told(
    501,
    'This path accepts a whole file as the body of one POST. Start resumable uploads (Tus-Resumable) at /uploads.',
  ),
  tus_version: 412,
  type_mismatch: 415,
  type_not_allowed: 415,
  unauthorized: 401,
  unsupported: told(
    501,
    'The storage cannot delete one slice of a trunk that was written elsewhere.',
  ),
  unsupported_digest: 400,
  unsupported_encoding: 415,
  unsupported_transfer_coding: told(501, 'Only the transfer coding chunked is supported.'),
  upload_under_way: told(409, undefined, 1),
} satisfies Record<Exclude<StoreErrorCode, 'body_used'>, Entry> & Record<string, Entry>;

type Entry = number | ProblemSpec;
export type ProblemCode = keyof typeof table;

const problems = Object.fromEntries(
  Object.entries<Entry>(table).map(([code, entry]) => [
    code,
    typeof entry === 'number' ? { status: entry } : entry,
  ]),
) as Readonly<Record<ProblemCode, ProblemSpec>>;

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
  /** By both of its names: frameworks answer with it. */
  readonly status: number;
  readonly statusCode: number;
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
    this.status = problems[code].status;
    this.statusCode = this.status;
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
  return problems[code].isFault === true;
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
