import { defaultTransferLimits, type TransferLimits } from '@stevedore/middleware/core';
import type { GatewayOptions } from './options.js';

/** Of the container, for unfinished uploads of one client. */
const CLIENT_SHARE = 1 / 2;

/**
 * Every bound of the gateway: those of bodies, of downloads and of connections.
 * Whatever a client does, what it may take of memory, time and connections ends
 * at one of these.
 */

export interface Limits extends TransferLimits {
  /** From the first byte of a request to the end of its headers. */
  readonly headerTimeoutMs: number;
  /** An open connection without a request. */
  readonly keepAliveMs: number;
  /** A connection on which nothing moves in either direction. */
  readonly idleMs: number;
  /** When one more comes, one without a request makes room, or a stalled download. */
  readonly maxConnections: number;
  /** What is under way at shutdown may take this long. */
  readonly drainMs: number;
}

export const defaultLimits: Limits = Object.freeze({
  ...defaultTransferLimits,
  headerTimeoutMs: 10_000,
  keepAliveMs: 60_000,
  idleMs: 120_000,
  maxConnections: 10_000,
  drainMs: 8000,
});

/** With those that are options. */
export function limitsOf(
  {
    maxFileSize,
    downloadBuffer,
    containerSize,
  }: Pick<GatewayOptions, 'maxFileSize' | 'downloadBuffer' | 'containerSize'>,
  others: Partial<Limits> = {},
): Limits {
  return Object.freeze({
    ...defaultLimits,
    ...others,
    maxFileBytes: maxFileSize,
    maxUnsentBytes: downloadBuffer,
    maxClientBytes: containerSize * CLIENT_SHARE,
  });
}
