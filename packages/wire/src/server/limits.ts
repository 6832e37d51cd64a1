import { randomInt } from 'node:crypto';
import { integers, OptionError } from '@stevedore/options';

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
  const limits = integers(options, {
    maxConnections: [4096, 1, 1_000_000],
    requestTimeoutMs: [30_000, 1, 86_400_000],
    maxControlBodyBytes: [64 * KIB, 2048, 16 * KIB * KIB],
    receiveBufferBytes: [256 * KIB, 2048, 64 * KIB * KIB],
    maxDrainBytes: [1024 * KIB, 0, Number.MAX_SAFE_INTEGER],
    closeTimeoutMs: [2000, 0, 3_600_000],
  });
  if (limits.maxControlBodyBytes > limits.receiveBufferBytes) {
    throw new OptionError(
      `maxControlBodyBytes (${limits.maxControlBodyBytes}) must fit receiveBufferBytes (${limits.receiveBufferBytes})`,
    );
  }
  return Object.freeze(limits);
}

/** Clock and randomness of the daemons, passed in so that a test can hold both. */
export interface Environment {
  /** Unix milliseconds. */
  now(): number;
  /** Milliseconds of the monotonic clock: for how long something has lasted. */
  uptimeMs(): number;
  /** A random integer from 0 to below `limit`, which is at most 2^32. */
  random(limit: number): number;
}

export const systemEnvironment: Environment = {
  now: () => Date.now(),
  uptimeMs: () => performance.now(),
  random: (limit) => randomInt(limit),
};

export function nowSeconds(environment: Environment): number {
  return Math.floor(environment.now() / 1000);
}

/** `count` random decimal digits. */
export function randomDigits(environment: Environment, count: number): string {
  return Array.from({ length: count }, () => environment.random(10)).join('');
}
