import { type FileId, Status } from '@stevedore/protocol';

/**
 * Every way a call can fail, and whether the same call can succeed later. A code never changes its
 * meaning.
 */
export const FASTDFS_ERRORS = {
  /** An option, a file id or a body is malformed; nothing was sent. */
  invalid_argument: false,
  /** The caller's AbortSignal ended the call. */
  aborted: false,
  /** The server requires its cluster's secret, or does not have the client's. */
  access_denied: true,
  /** The client was closed before or during the call. */
  closed: false,
  /** The deadline of the call passed, or a server made no progress for too long. */
  timeout: true,
  /** Too many calls wait for a connection, or one waited too long. */
  pool_exhausted: true,
  /** No tracker could be reached; the cause is the last failure. */
  no_tracker: true,
  /** A connection to a storage could not be made. */
  connect_failed: true,
  /** The server closed or reset the connection before its reply was complete. */
  connection_lost: true,
  /** The bytes received are no valid reply; the connection was dropped. */
  bad_reply: true,
  /** The body yielded fewer or more bytes than its announced size; nothing was stored. */
  length_mismatch: false,
  /** A file has more bytes than maxBytes allows. */
  too_large: false,
  /** The trackers know no active storage for the call: it is away, or not back yet. */
  no_storage: true,
  /** The trackers know other groups, but not the one that the call names. */
  unknown_group: false,
  /** The server knows no such file or group. */
  not_found: false,
  /** The group or its storage has no space left. */
  no_space: true,
  /** The server is not ready to serve the call yet. */
  busy: true,
  /** The server answered another error; its errno is in status. */
  server_status: false,
} as const;

export type FastdfsErrorCode = keyof typeof FASTDFS_ERRORS;

export interface FastdfsErrorDetails {
  /** The method that failed; `download` for each variant of it. */
  readonly operation: string;
  /** errno of a server's reply. */
  readonly status?: number | undefined;
  /** `host:port` of the server concerned. */
  readonly address?: string | undefined;
  readonly fileId?: string | undefined;
  readonly cause?: unknown;
}

/** Errno values of storages that cannot reach a peer. */
const PASSING_STATUSES: ReadonlySet<number> = new Set([
  Status.ioError,
  104,
  Status.timedOut,
  111,
  113,
]);

export class FastdfsError extends Error {
  override readonly name = 'FastdfsError';
  readonly code: FastdfsErrorCode;
  /** errno of the server's reply, a Linux number whatever the platform. */
  readonly status?: number;
  readonly operation: string;
  readonly address?: string;
  readonly fileId?: string;
  /**
   * True if the same call can succeed later. Repeating an upload after its bytes were sent can
   * leave a second copy.
   */
  readonly retryable: boolean;

  constructor(code: FastdfsErrorCode, message: string, details: FastdfsErrorDetails) {
    const { address = '' } = details;
    // The system's own message names it already.
    const where = message.includes(address) ? '' : ` (${address})`;
    const options = details.cause === undefined ? undefined : { cause: details.cause };
    super(`${details.operation}: ${message}${where}`, options);
    this.code = code;
    this.operation = details.operation;
    if (details.status !== undefined) this.status = details.status;
    if (details.address !== undefined) this.address = details.address;
    if (details.fileId !== undefined) this.fileId = details.fileId;
    this.retryable =
      FASTDFS_ERRORS[code] ||
      (details.status !== undefined && PASSING_STATUSES.has(details.status));
  }

  /** As `status`. */
  get errno(): number | undefined {
    return this.status;
  }
}

/** Codes of calls that got no answer: another server may answer. */
const UNREACHABLE: ReadonlySet<FastdfsErrorCode> = new Set([
  'access_denied',
  'connect_failed',
  'connection_lost',
  'timeout',
  'bad_reply',
  'pool_exhausted',
]);

/** True if a server gave no usable answer. */
export function isUnreachable(error: unknown): error is FastdfsError {
  return error instanceof FastdfsError && UNREACHABLE.has(error.code);
}

export function isNotFound(error: unknown): error is FastdfsError {
  return error instanceof FastdfsError && error.code === 'not_found';
}

/** The bytes are at another id. Not a failure: the read continues there. */
export class Redirect extends Error {
  override readonly name = 'Redirect';
  readonly place: FileId;

  constructor(place: FileId) {
    super(`the bytes are at ${place.group}/${place.name}`);
    this.place = place;
  }
}

/** The code for the status byte of a reply. */
export function codeOfStatus(status: number): FastdfsErrorCode {
  switch (status) {
    case Status.notFound:
      return 'not_found';
    case Status.noSpace:
      return 'no_space';
    case Status.accessDenied:
      return 'access_denied';
    case Status.tryAgain:
    case Status.busy:
      return 'busy';
    default:
      return 'server_status';
  }
}
