/**
 * Marks of uploads: 16 bytes, and 8 more for a file of an upload of several, which have its place
 * there and the number of files (big-endian). So it is known which of them were deleted since.
 */

export const MARK_BYTES = 16;
const PART_BYTES = 8;

export interface UploadPart {
  /** From 0 on. */
  readonly place: number;
  readonly count: number;
}

/** The mark, as text, of one file of the upload with this mark. */
export function partMark(mark: string, { place, count }: UploadPart): string {
  const part = Buffer.alloc(PART_BYTES);
  part.writeUInt32BE(place, 0);
  part.writeUInt32BE(count, 4);
  return Buffer.concat([Buffer.from(mark, 'base64url'), part]).toString('base64url');
}

/** Undefined for the only file of an upload. */
export function partIn(once: string): UploadPart | undefined {
  const bytes = Buffer.from(once, 'base64url');
  if (bytes.length !== MARK_BYTES + PART_BYTES) return undefined;
  return { place: bytes.readUInt32BE(MARK_BYTES), count: bytes.readUInt32BE(MARK_BYTES + 4) };
}

/** No file of the upload has a mark behind this one. */
export function lastPart(mark: Buffer): Buffer {
  return Buffer.concat([mark, Buffer.alloc(PART_BYTES, 0xff)]);
}
