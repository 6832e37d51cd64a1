import { FastdfsError } from '@stevedore/fastdfs';
import { Status } from '@stevedore/protocol';
import { StoreError } from '@stevedore/staging/errors';

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

export function aborted(cause: unknown): StoreError {
  return new StoreError('aborted', 'the read was aborted', { cause });
}

const NOT_THERE: ReadonlySet<string> = new Set(['not_found', 'unknown_group']);

/** Converts an error of FastDFS; returns any other unchanged. */
export function storageError(error: unknown, fileId: string): unknown {
  if (!(error instanceof FastdfsError)) return error;
  // A storage rejects a name that it cannot have issued as invalid.
  if (NOT_THERE.has(error.code) || error.status === Status.invalid) return notFound(fileId, error);
  if (error.code === 'aborted') return aborted(error);
  return new StoreError(
    'storage_unavailable',
    `FastDFS could not be reached for ${fileId}: ${error.message}`,
    { cause: error, retryable: true },
  );
}
