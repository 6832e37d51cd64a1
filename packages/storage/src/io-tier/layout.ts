/**
 * How the bytes of a data file lie on I/O servers. Pure. A data file is cut into stripes
 * of one size; stripe `i` is at server `i mod n` of its `n` servers, where it lies behind
 * stripe `i - n`. So each server has one part, and a part has no holes.
 *
 *     file     | 0 | 1 | 2 | 3 | 4 |
 *     server 0 | 0 | 2 | 4 |
 *     server 1 | 1 | 3 |
 *
 * The record of a file has its layout with the CRC-32 of every stripe: whatever a server
 * does to its parts, bytes that are not those of the record are never given to anybody.
 */

export interface Layout {
  /** Names the data file among all of its owner's. */
  readonly handle: string;
  readonly stripeBytes: number;
  /** Ids of the servers, in the order of the parts. */
  readonly servers: readonly string[];
  /** CRC-32 of each stripe, the last one as long as the file has it. */
  readonly checks: readonly number[];
}

export type Striping = Pick<Layout, 'stripeBytes' | 'servers'>;

export function stripesOf(size: number, stripeBytes: number): number {
  return Math.ceil(size / stripeBytes);
}

/** Bytes that a stripe of a file of this size has. */
export function stripeLength(stripe: number, size: number, stripeBytes: number): number {
  return Math.max(0, Math.min(stripeBytes, size - stripe * stripeBytes));
}

/** Where a stripe begins in its part, and which part that is. */
export function placeOf(
  stripe: number,
  { stripeBytes, servers }: Striping,
): { readonly server: number; readonly offset: number } {
  const count = servers.length;
  return { server: stripe % count, offset: Math.floor(stripe / count) * stripeBytes };
}

/** Bytes of a server's part in a file of this size. */
export function partLength(
  server: number,
  size: number,
  { stripeBytes, servers }: Striping,
): number {
  const count = servers.length;
  const whole = Math.floor(size / stripeBytes);
  const rest = size - whole * stripeBytes;
  const own = Math.floor(whole / count) + (whole % count > server ? 1 : 0);
  return own * stripeBytes + (whole % count === server ? rest : 0);
}

/** A piece of a request that lies in one stripe. */
export interface Piece {
  readonly stripe: number;
  /** Within the stripe. */
  readonly from: number;
  /** Within the request. */
  readonly at: number;
  readonly bytes: number;
}

/** What `bytes` bytes from `position` on are of each stripe. */
export function piecesOf(position: number, bytes: number, stripeBytes: number): Piece[] {
  const pieces: Piece[] = [];
  for (let at = 0; at < bytes; ) {
    const stripe = Math.floor((position + at) / stripeBytes);
    const from = position + at - stripe * stripeBytes;
    const piece = { stripe, from, at, bytes: Math.min(stripeBytes - from, bytes - at) };
    pieces.push(piece);
    at += piece.bytes;
  }
  return pieces;
}

/** The CRC-32s as a record keeps them: four bytes each, big-endian. */
export function encodeChecks(checks: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(checks.length * 4);
  for (const [index, check] of checks.entries()) bytes.writeUInt32BE(check, index * 4);
  return bytes;
}

export function decodeChecks(bytes: Buffer): number[] {
  const checks: number[] = [];
  for (let at = 0; at + 4 <= bytes.length; at += 4) checks.push(bytes.readUInt32BE(at));
  return checks;
}
