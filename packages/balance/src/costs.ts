import { clamp } from './forecast/forecaster.js';

/**
 * The cost of a request, in bytes that the disk could have written durably in the same time. Reads
 * and synced writes differ by orders of magnitude, so they have separate costs. Pure.
 */

export interface Costs {
  /** B_logic: bytes of large synced writes per second. */
  readonly bytesPerSecond: number;
  /** Cost of a synced write beyond its bytes. */
  readonly accessBytes: number;
  /** Cost of a read beyond its bytes. */
  readonly readAccessBytes: number;
  /** Cost of a byte read, as a share of a byte written. */
  readonly readByteShare: number;
}

export type Access = 'read' | 'write';

export function costOf(costs: Costs, access: Access, bytes: number): number {
  return access === 'write'
    ? bytes + costs.accessBytes
    : bytes * costs.readByteShare + costs.readAccessBytes;
}

/** Accesses of one kind in an interval. */
export interface Accesses {
  readonly count: number;
  readonly bytes: number;
  /** Time that the disk was busy with them. Concurrent accesses share their time. */
  readonly ms: number;
}

/** Largest power of the error by which one interval corrects a cost. */
const GAIN = 0.2;
const MOST_WRONG = 4;
/** This many accesses get half of the full weight. */
const HALF_TRUST = 32;
const ACCESS_MS = [0.001, 1000] as const;
const BYTE_MS = [1e-7, 1e-2] as const;

/**
 * The costs after an interval. The ratio of measured to expected time corrects both costs of a
 * kind, each by its part in the expectation: small accesses show the cost of an access, large ones
 * that of a byte.
 */
export function learnedCosts(costs: Costs, seen: Readonly<Record<Access, Accesses>>): Costs {
  const byteMs = 1000 / costs.bytesPerSecond;
  const { accessBytes, readAccessBytes, readByteShare } = costs;
  const write = corrected({ accessMs: accessBytes * byteMs, byteMs }, seen.write);
  const read = corrected(
    { accessMs: readAccessBytes * byteMs, byteMs: readByteShare * byteMs },
    seen.read,
  );
  return {
    bytesPerSecond: 1000 / write.byteMs,
    accessBytes: write.accessMs / write.byteMs,
    readAccessBytes: read.accessMs / write.byteMs,
    readByteShare: read.byteMs / write.byteMs,
  };
}

interface Times {
  readonly accessMs: number;
  readonly byteMs: number;
}

function corrected(given: Times, { count, bytes, ms }: Accesses): Times {
  const accessMs = clamp(given.accessMs, ...ACCESS_MS);
  const byteMs = clamp(given.byteMs, ...BYTE_MS);
  if (!(count > 0) || !(ms > 0)) return { accessMs, byteMs };
  const expected = count * accessMs + bytes * byteMs;
  const wrong = clamp(ms / expected, 1 / MOST_WRONG, MOST_WRONG);
  const power = (GAIN * count) / (count + HALF_TRUST);
  const ofAccesses = (count * accessMs) / expected;
  return {
    accessMs: clamp(accessMs * wrong ** (power * ofAccesses), ...ACCESS_MS),
    byteMs: clamp(byteMs * wrong ** (power * (1 - ofAccesses)), ...BYTE_MS),
  };
}
