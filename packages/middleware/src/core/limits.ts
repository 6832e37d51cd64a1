import type { UnsentLimits } from './http/unsent-bytes.js';

/**
 * Limits of uploads and downloads, each with its unit in its name. They bound the memory and time
 * that any client can use.
 */

const KIB = 2 ** 10;
const MIB = 2 ** 20;
const GIB = 2 ** 30;

export interface TransferLimits extends UnsentLimits {
  /** One file, raw or in a form. */
  readonly maxFileBytes: number;
  /** Files and fields of one form. */
  readonly maxParts: number;
  readonly maxPartHeaders: number;
  readonly maxPartHeaderBytes: number;
  /** A field of a form that is not a file. */
  readonly maxFieldBytes: number;
  /** The client's name for a file, as UTF-8. */
  readonly maxNameBytes: number;
  /** Of a form: before its first boundary, and after its last one. */
  readonly maxSurroundingBytes: number;
  /** Bodies of known length up to this are passed on in one piece. */
  readonly maxBufferedBytes: number;
  /** What a connection may still send after a refusal, before reading stops. */
  readonly maxLingerBytes: number;
  readonly lingerMs: number;
  /** A body must arrive at this rate ... */
  readonly minBodyBytesPerSecond: number;
  /** ... in any window of this much time spent waiting for its client. */
  readonly bodyWindowMs: number;
  /** Bytes of all bodies that one client is sending, other than those of resumable uploads. */
  readonly maxClientBytes: number;
  /** Resumable uploads that one client may leave unfinished. */
  readonly maxClientUploads: number;
  /** How often to check for slow bodies. */
  readonly checkIntervalMs: number;
}

export const defaultTransferLimits: TransferLimits = Object.freeze({
  maxFileBytes: GIB,
  maxParts: 100,
  maxPartHeaders: 20,
  maxPartHeaderBytes: 8 * KIB,
  maxFieldBytes: 64 * KIB,
  maxNameBytes: KIB,
  maxSurroundingBytes: 64 * KIB,
  maxBufferedBytes: 64 * KIB,
  maxLingerBytes: 64 * KIB,
  lingerMs: 1000,
  minBodyBytesPerSecond: KIB,
  bodyWindowMs: 20_000,
  maxClientBytes: Number.POSITIVE_INFINITY,
  maxClientUploads: Number.POSITIVE_INFINITY,
  checkIntervalMs: 2000,
  maxUnsentBytes: 24 * MIB,
  downloadStallMs: 60_000,
  maxStalled: 2_048,
});

/** Limit of a whole form: files up to the longest file together, and what surrounds them. */
export function maxFormBytes(limits: TransferLimits): number {
  const aroundEachPart = limits.maxPartHeaderBytes + limits.maxFieldBytes;
  return limits.maxFileBytes + limits.maxParts * aroundEachPart + 2 * limits.maxSurroundingBytes;
}
