/**
 * The cost of a request: its bytes, and the bytes that the disk could have served in the time that
 * an access takes. Pure.
 */

export interface Costs {
  /** B_logic, in a second. */
  readonly bytesPerSecond: number;
  /** Of a read, beside its bytes. */
  readonly readMs: number;
  /** Of a change that is durable, beside its bytes. */
  readonly writeMs: number;
}

export type Access = 'read' | 'write';

export function costOf({ bytesPerSecond, readMs, writeMs }: Costs, access: Access, bytes: number) {
  return bytes + (bytesPerSecond / 1000) * (access === 'write' ? writeMs : readMs);
}
