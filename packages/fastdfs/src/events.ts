import type { FailedExchange } from './caller.js';

/** What a client tells besides the results of calls. */

/**
 * A request that stores something was sent and its answer never came: the cluster
 * may hold a file whose name is unknown. It is reported even when a repetition
 * elsewhere succeeded.
 */
export interface PossibleOrphan {
  readonly operation: string;
  /** `host:port` of the storage that may hold it. */
  readonly address: string;
  /** Bytes of the file; undefined where the call does not tell. */
  readonly size: number | undefined;
  /** The file the call was about, for calls on a file. */
  readonly fileId: string | undefined;
  /** Why the answer is missing: a FastdfsError, or what the body's source threw. */
  readonly error: unknown;
}

export interface FastdfsEvents {
  possibleOrphan: [orphan: PossibleOrphan];
}

/** The orphan that a failed exchange may have left, if any. */
export function orphanOf(
  failed: FailedExchange,
  operation: string,
  size: number | undefined,
  fileId?: string,
): PossibleOrphan | undefined {
  if (!failed.sent) return undefined;
  return { operation, address: failed.address, size, fileId, error: failed.error };
}
