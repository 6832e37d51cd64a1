import { OptionError } from '@stevedore/options';

/**
 * What tracker and storage options have in common. Each daemon fills in its
 * defaults once, checks them once and freezes the result.
 */

export const DEFAULT_HOST = '127.0.0.1';
export const DEFAULT_STORAGE_PORT = 23_000;

/** What stock trackers and tools show as the version: the protocol these daemons speak. */
export const PROTOCOL_VERSION = '6.16.1';

const KIB = 1024;

/** Limits of the connections of a daemon. */
export interface ConnectionOptions {
  /** Connections served at a time; further ones are closed at once. Default 4096. */
  readonly maxConnections?: number;
  /**
   * Time for the first request of a connection and the head of every other to
   * arrive whole, and the longest silence within a body or an unread answer. A
   * connection between two requests may be idle for ever. Default 30,000.
   */
  readonly requestTimeoutMs?: number;
  /** Longest body of a request that carries no file. Default 64 KiB. */
  readonly maxControlBodyBytes?: number;
  /** Received bytes held for a connection before its sender has to wait. Default 256 KiB. */
  readonly receiveBufferBytes?: number;
  /** Rest of a refused upload that is read and dropped to keep its connection. Default 1 MiB. */
  readonly maxDrainBytes?: number;
  /** Time that requests under way get when the daemon closes. Default 2000. */
  readonly closeTimeoutMs?: number;
}

export type ConnectionLimits = Required<ConnectionOptions>;

export function connectionLimits(options: ConnectionOptions): ConnectionLimits {
  const limits: ConnectionLimits = {
    maxConnections: options.maxConnections ?? 4096,
    requestTimeoutMs: options.requestTimeoutMs ?? 30_000,
    maxControlBodyBytes: options.maxControlBodyBytes ?? 64 * KIB,
    receiveBufferBytes: options.receiveBufferBytes ?? 256 * KIB,
    maxDrainBytes: options.maxDrainBytes ?? 1024 * KIB,
    closeTimeoutMs: options.closeTimeoutMs ?? 2000,
  };
  checkInteger('maxConnections', limits.maxConnections, 1, 1_000_000);
  checkInteger('requestTimeoutMs', limits.requestTimeoutMs, 1, 86_400_000);
  checkInteger('maxControlBodyBytes', limits.maxControlBodyBytes, 2048, 16 * KIB * KIB);
  checkInteger('receiveBufferBytes', limits.receiveBufferBytes, 2048, 64 * KIB * KIB);
  checkInteger('maxDrainBytes', limits.maxDrainBytes, 0, Number.MAX_SAFE_INTEGER);
  checkInteger('closeTimeoutMs', limits.closeTimeoutMs, 0, 3_600_000);
  if (limits.maxControlBodyBytes > limits.receiveBufferBytes) {
    throw new OptionError(
      `maxControlBodyBytes (${limits.maxControlBodyBytes}) must fit receiveBufferBytes (${limits.receiveBufferBytes})`,
    );
  }
  return Object.freeze(limits);
}

export function checkInteger(name: string, value: number, least: number, most: number): void {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new OptionError(`${name} must be an integer from ${least} to ${most}, not ${value}`);
  }
}
