/**
 * What a request costs, in bytes that the disk could have written durably instead. Reads
 * and synced writes differ by orders of magnitude: each has a cost of its own. Pure.
 */

export interface Costs {
  /** B_logic: bytes of large synced writes in a second. */
  readonly bytesPerSecond: number;
  /** Of a synced write of few bytes, beside those. */
  readonly accessBytes: number;
  /** Of a read of few bytes, beside those. */
  readonly readAccessBytes: number;
  /** A byte that is read, against one that is written. */
  readonly readByteShare: number;
}

export type Access = 'read' | 'write';

export function costOf(costs: Costs, access: Access, bytes: number): number {
  return access === 'write'
    ? bytes + costs.accessBytes
    : bytes * costs.readByteShare + costs.readAccessBytes;
}
