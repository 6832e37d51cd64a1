import { isError, ProtocolError, Status, statusText } from '@stevedore/protocol';

/**
 * Errors of the daemons. A handler throws StatusError for what the protocol foresees. Any other
 * error is unexpected: it is answered with the closest status (`statusOf`) and reported.
 */

/** An expected answer other than success, such as a missing file or a bad name. */
export class StatusError extends Error {
  override readonly name = 'StatusError';
  readonly code = 'server_status';
  readonly status: number;
  /** Body of the answer. */
  readonly body: Buffer | undefined;

  constructor(status: number, message: string, body?: Buffer) {
    super(`${message}: ${statusText(status)}`);
    this.status = status;
    this.body = body;
  }
}

type ConnectionErrorCode = 'connect_failed' | 'connection_lost' | 'timeout';

/** There is no connection, or it cannot continue: the peer closed it or was silent for too long. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
  readonly code: ConnectionErrorCode;

  constructor(code: ConnectionErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** The other end of a connection does not have our secret. */
export class AuthenticationError extends Error {
  override readonly name = 'AuthenticationError';
  readonly code = 'access_denied';
}

/** A daemon cannot start. `code` is the system's (EADDRINUSE, EACCES, ENOTDIR) or our own. */
export class StartError extends Error {
  override readonly name = 'StartError';
  readonly code: string;

  constructor(code: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

const STATUS_OF_CODE: Readonly<Record<string, number>> = {
  ENOENT: Status.notFound,
  ENOTDIR: Status.notFound,
  EISDIR: Status.isDirectory,
  EEXIST: Status.exists,
  ENOSPC: Status.noSpace,
  EDQUOT: Status.noSpace,
  EMFILE: Status.tryAgain,
  ENFILE: Status.tryAgain,
  SQLITE_BUSY: Status.tryAgain,
  SQLITE_FULL: Status.noSpace,
};

/** The status that answers a request that failed with `error`. */
export function statusOf(error: unknown): number {
  if (error instanceof StatusError || error instanceof ProtocolError) return error.status;
  return STATUS_OF_CODE[codeOf(error) ?? ''] ?? Status.ioError;
}

/** True for failures that the protocol foresees; they are not reported. */
export function isExpected(error: unknown): boolean {
  return error instanceof StatusError || error instanceof ProtocolError;
}

/** The `code` of an error, if it is text. */
export function codeOf(error: unknown): string | undefined {
  if (!isError(error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Converts anything thrown to an Error. */
export function asError(value: unknown): Error {
  return isError(value) ? value : new Error(String(value));
}
