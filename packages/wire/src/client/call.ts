/**
 * The call that a request is made for: it says when it has ended, and makes the errors of
 * its requests, so that each client has an error class of its own.
 */
export interface Call {
  /** Throws the error that ended the call, if it has ended. */
  throwIfEnded(): void;
  /** Sets what to call when the call ends; one at a time. */
  watch(watcher: (error: Error) => void): void;
  unwatch(): void;
  error(code: FailureCode, message: string, details?: FailureDetails): Error;
}

export type FailureCode =
  | 'access_denied'
  | 'bad_reply'
  | 'closed'
  | 'connect_failed'
  | 'connection_lost'
  | 'invalid_argument'
  | 'length_mismatch'
  | 'pool_exhausted'
  | 'timeout';

export interface FailureDetails {
  /** `host:port` of the server concerned. */
  readonly address?: string;
  readonly cause?: unknown;
}
