import { tracingChannel } from 'node:diagnostics_channel';
import type { FailedExchange, RequestMessage } from '@stevedore/wire';

/** What a client publishes besides results. */

/**
 * A request that stores something was sent, but its answer never came: the cluster may hold a file
 * whose name is unknown. Reported even if a retry elsewhere succeeded.
 */
export interface PossibleOrphan {
  readonly operation: string;
  /** `host:port` of the storage that may hold it. */
  readonly address: string;
  /** Size of the file, if the call knows it. */
  readonly size: number | undefined;
  /** The file the call was about, for calls on a file. */
  readonly fileId: string | undefined;
  /** Why the answer is missing: a FastdfsError, or the error of the body's source. */
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

/**
 * What the client publishes on `node:diagnostics_channel`: each name is a tracing channel
 * (`tracing:NAME:start`, `:asyncEnd`, `:error`). Without subscribers, a call costs one check of a
 * flag.
 */

/** A socket to a server is being opened. */
export interface ConnectMessage {
  /** `host:port` */
  readonly address: string;
}

export const CHANNELS = Object.freeze({
  connect: 'stevedore.fastdfs.connect',
  request: 'stevedore.fastdfs.request',
});

export const connectChannel = tracingChannel<unknown, ConnectMessage>(CHANNELS.connect);
export const requestChannel = tracingChannel<unknown, RequestMessage>(CHANNELS.request);
