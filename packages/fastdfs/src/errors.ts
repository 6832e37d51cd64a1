import { type FileId, Status } from '@stevedore/protocol';

/**
 * Every way a call can fail: one table of stable codes, each with a sentence, and the one error
 * class of this package. A code never changes its meaning.
 */

interface CodeEntry {
  readonly meaning: string;
  /** True if the same call can succeed later. */
  readonly retryable: boolean;
}

export const FASTDFS_ERRORS = {
  invalid_argument: {
    meaning: 'An option, a file id or a body is malformed; nothing was sent.',
    retryable: false,
  },
  aborted: { meaning: "The caller's AbortSignal ended the call.", retryable: false },
  address_not_allowed: {
    meaning:
      'A tracker named a storage that allowedStorages does not list; nothing was sent to it.',
    retryable: false,
  },
  access_denied: {
    meaning: "The server requires its cluster's secret, or does not have the client's.",
    retryable: true,
  },
  closed: { meaning: 'The client was closed before or during the call.', retryable: false },
  timeout: {
    meaning: 'The deadline of the call passed, or a server made no progress for too long.',
    retryable: true,
  },
  pool_exhausted: {
    meaning: 'Too many calls wait for a connection, or one waited too long.',
    retryable: true,
  },
  no_tracker: {
    meaning: 'No tracker could be reached; the cause is the last failure.',
    retryable: true,
  },
  connect_failed: { meaning: 'A connection to a storage could not be made.', retryable: true },
  connection_lost: {
    meaning: 'The server closed or reset the connection before its reply was complete.',
    retryable: true,
  },
  bad_reply: {
    meaning: 'The bytes received are no valid reply; the connection was dropped.',
    retryable: true,
  },
  length_mismatch: {
    meaning: 'The body yielded fewer or more bytes than its announced size; nothing was stored.',
    retryable: false,
  },
  too_large: {
    meaning: 'A file has more bytes than maxBytes, or a body more than maxSpoolBytes, allows.',
    retryable: false,
  },
  no_storage: {
    meaning: 'The trackers know no active storage for the call: it is away, or not back yet.',
    retryable: true,
  },
  unknown_group: {
    meaning: 'The trackers know other groups, but not the one that the call names.',
    retryable: false,
  },
  not_found: { meaning: 'The server knows no such file or group.', retryable: false },
  no_space: { meaning: 'The group or its storage has no space left.', retryable: true },
  busy: { meaning: 'The server is not ready to serve the call yet.', retryable: true },
  server_status: {
    meaning: 'The server answered another error; its errno is in status.',
    retryable: false,
  },
} as const satisfies Readonly<Record<string, CodeEntry>>;

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
      FASTDFS_ERRORS[code].retryable ||
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
