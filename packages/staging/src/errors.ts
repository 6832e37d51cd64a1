/**
 * Operating errors of the store. `code` is stable. Messages say what happened, to what, and what to
 * do. docs/REFERENCE.md lists all codes.
 */

export type StoreErrorCode =
  | 'aborted'
  | 'client_room_exceeded'
  | 'closed'
  | 'container_full'
  | 'container_write_failed'
  | 'corrupt'
  | 'directory_locked'
  | 'directory_unusable'
  | 'disk_full'
  | 'invalid_id'
  | 'invalid_option'
  | 'length_mismatch'
  | 'not_found'
  | 'offset_mismatch'
  | 'partner_away'
  | 'port_in_use'
  | 'range_not_satisfiable'
  | 'refused'
  | 'storage_unavailable'
  | 'too_large'
  | 'too_many_unfinished'
  | 'unsupported';

export interface StoreErrorDetails {
  readonly cause?: unknown;
  /** True if the same call may succeed later. */
  readonly retryable?: boolean;
}

export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: StoreErrorCode;
  readonly retryable: boolean;

  constructor(code: StoreErrorCode, message: string, details: StoreErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.retryable = details.retryable ?? false;
  }
}

/**
 * True for a StoreError, with the given code if there is one. Compares the name, not the class: a
 * program may load two copies of the package.
 */
export function isStoreError(error: unknown, code?: StoreErrorCode): error is StoreError {
  if (!(error instanceof Error) || error.name !== 'StoreError' || !('code' in error)) return false;
  return code === undefined || error.code === code;
}
