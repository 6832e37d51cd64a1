import { randomInt } from 'node:crypto';
import { unixTime } from '@stevedore/protocol';

/** Options that tracker and storage share. Each daemon fills in its defaults and freezes the result. */

export const DEFAULT_HOST = '127.0.0.1';
export const DEFAULT_STORAGE_PORT = 23_000;

/** The version that stock trackers and tools show: the protocol version of these daemons. */
export const PROTOCOL_VERSION = '6.16.1';

/** Limits of a daemon's connections. */
export interface ConnectionOptions {
  /**
   * Most connections at a time. A further one displaces the longest idle one; if none is idle, it
   * is closed at once. Default 4096.
   */
  readonly maxConnections?: number;
  /**
   * Time for the first header of a new connection, for any other header once it has begun, and for
   * each control body or upload head to arrive completely; also the longest silence within the
   * bytes of a file or an unread answer. Between two requests a connection may be idle forever.
   * Default 30,000.
   */
  readonly requestTimeoutMs?: number;
  /** Time for requests in flight when the daemon closes. Default 2000. */
  readonly closeTimeoutMs?: number;
}

export type ConnectionLimits = Required<ConnectionOptions>;

export function connectionLimits(options: ConnectionOptions): ConnectionLimits {
  const { maxConnections = 4096, requestTimeoutMs = 30_000, closeTimeoutMs = 2000 } = options;
  return Object.freeze({ maxConnections, requestTimeoutMs, closeTimeoutMs });
}

/** Clock and randomness, passed in so that tests control both. */
export interface Environment {
  /** Unix milliseconds. */
  now(): number;
  /** Milliseconds of the monotonic clock. */
  uptimeMs(): number;
  /** A random integer from 0 to `limit` - 1; `limit` is at most 2^32. */
  random(limit: number): number;
}

export const systemEnvironment: Environment = {
  now: unixTime,
  uptimeMs: () => performance.now(),
  random: (limit) => randomInt(limit),
};

export function nowSeconds(environment: Environment): number {
  return Math.floor(environment.now() / 1000);
}

/** `count` random decimal digits, at most 9. */
export function randomDigits(environment: Environment, count: number): string {
  return String(environment.random(10 ** count)).padStart(count, '0');
}
