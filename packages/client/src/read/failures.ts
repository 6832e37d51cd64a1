import { FastdfsError } from '@stevedore/fastdfs';
import { Status } from '@stevedore/protocol';
import { isStoreError, StoreError, type StoreErrorCode } from '@stevedore/staging/errors';

/** The errors with which reads fail. */

export function notFound(id: string, cause?: unknown): StoreError {
  return new StoreError('not_found', `there is no file ${id}`, { cause });
}

export function unsupported(id: string): StoreError {
  return new StoreError(
    'unsupported',
    `${id} is in a trunk that this store did not write, and its storage cannot delete single slices; delete it by its key at the store that uploaded it`,
  );
}

export function notAnId(id: string): StoreError {
  return new StoreError('invalid_id', `"${id}" is neither a key nor a FastDFS id`);
}

/** No copy of the file has the bytes that were stored. */
export function corrupt(name: string): StoreError {
  return new StoreError('corrupt', `the bytes of ${name} are not those that were stored`);
}

/** An appender has other bytes than when it was looked up. */
export function changed(fileId: string, cause: unknown): StoreError {
  return new StoreError('storage_unavailable', `${fileId} was changed while it was read`, {
    cause,
  });
}

export function aborted(cause: unknown): StoreError {
  return new StoreError('aborted', 'the read was aborted', { cause });
}

export function mapUnavailable(cause: unknown): StoreError {
  const message = `the map does not answer: ${(cause as Error).message}`;
  return new StoreError('storage_unavailable', message, { cause });
}

/** A record names the file in FastDFS, and FastDFS answers that it has no such file. */
export function missing(fileId: string, cause?: unknown): StoreError {
  return new StoreError(
    'missing_in_fastdfs',
    `FastDFS no longer has ${fileId}, and nobody deleted it here`,
    { cause },
  );
}

/**
 * Converts an error of FastDFS; returns any other unchanged. `isKnown`: a record names the file, so
 * an answer that there is none means that it was lost.
 */
export function storageError(error: unknown, fileId: string, isKnown = false): unknown {
  if (!(error instanceof FastdfsError)) return error;
  if (error.code === 'not_found') return (isKnown ? missing : notFound)(fileId, error);
  // A storage rejects a name that it cannot have issued as invalid, and bytes that a file lacks.
  if (error.status === Status.invalid) return isKnown ? corrupt(fileId) : notFound(fileId, error);
  // Trackers know storages, not files.
  if (error.code === 'unknown_group' && !isKnown) return notFound(fileId, error);
  if (error.code === 'aborted') return aborted(error);
  return new StoreError(
    'storage_unavailable',
    `FastDFS could not be reached for ${fileId}: ${error.message}`,
    { cause: error },
  );
}

/**
 * Of the failures of several copies, the one to throw. While a copy cannot be read, another attempt
 * may succeed. Wrong bytes say more than none.
 */
export function worse(before: unknown, error: unknown): unknown {
  return rank(before) > rank(error) ? before : error;
}

/** What storages answer that have no sound copy, the gravest last. */
const ANSWERS: readonly StoreErrorCode[] = ['not_found', 'missing_in_fastdfs', 'corrupt'];

/** True if the storage asked has no sound copy; another one may have. */
export function isWithoutCopy(error: unknown): error is StoreError {
  return isStoreError(error) && ANSWERS.includes(error.code);
}

function rank(error: unknown): number {
  // The other process of this machine that owns the file has removed it from its disk.
  if (error === undefined || (error as NodeJS.ErrnoException).code === 'ENOENT') return -1;
  return isWithoutCopy(error) ? ANSWERS.indexOf(error.code) : ANSWERS.length;
}
