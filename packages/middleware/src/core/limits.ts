/**
 * Bounds of uploads, each with its unit in its name. Whatever a client does,
 * what its bodies may take of memory and time ends at one of these.
 */

const KIB = 2 ** 10;
const GIB = 2 ** 30;

export interface BodyLimits {
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
  /** Bodies of known length up to here are handed on in one piece. */
  readonly maxBufferedBytes: number;
  /** What a connection may still send after it was refused, before it is cut. */
  readonly maxLingerBytes: number;
  readonly lingerMs: number;
  /** A body may start this slowly ... */
  readonly bodyGraceMs: number;
  /** ... and has to arrive at this rate from then on. */
  readonly minBodyBytesPerSecond: number;
  /** How often slow bodies are looked for. */
  readonly checkIntervalMs: number;
}

export const defaultBodyLimits: BodyLimits = Object.freeze({
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
  bodyGraceMs: 10_000,
  minBodyBytesPerSecond: KIB,
  checkIntervalMs: 2000,
});

/** A whole form: as many bytes of files as one file may have, and what goes around them. */
export function maxFormBytes(limits: BodyLimits): number {
  const aroundEachPart = limits.maxPartHeaderBytes + limits.maxFieldBytes;
  return limits.maxFileBytes + limits.maxParts * aroundEachPart + 2 * limits.maxSurroundingBytes;
}
