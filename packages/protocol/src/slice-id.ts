import { ProtocolError } from './bytes.js';
import {
  decodeFields,
  ENCODED_FIELDS_CHARS,
  encodeFields,
  type FileId,
  formatFileId,
  isExtension,
  isSmallNormalSizeField,
  normalSizeField,
  parseFileId,
  RANDOM_BITS,
} from './file-id.js';

/**
 * Slice ids: the FastDFS id of one small file inside a trunk.
 *
 *     trunk   group1/M00/3F/A2/<27 characters>.merged
 *     slice   group1/M00/3F/A2/<27 of the slice><22 that rebuild the trunk's id and the offset>.jpg
 *
 * The first 27 characters have the standard form, for the slice: the trunk's
 * source and time, the slice's own size and CRC-32. The 22 hold 16 bytes: the
 * trunk's size field (8), its CRC-32 (4) and the slice's offset (4). The trunk's
 * extension fills its tail, so that nothing random has to be kept.
 *
 * A reader must first compare the offset, size and CRC-32 of a slice id with the
 * trunk's directory: the id alone can be forged.
 */

/** Extension of every trunk: six characters, so a storage adds no digits to it. */
export const TRUNK_EXTENSION = 'merged';

const TRUNK_TAIL = `.${TRUNK_EXTENSION}`;
/**
 * 27 characters, 22, and an extension. The last character of each part has unused low bits, which
 * must be zero: otherwise a slice would have several ids.
 */
const SLICE_BASE = /^([\w-]{26}[AEIMQUYcgkosw048])([\w-]{21}[AQgw])(?:\.([A-Za-z0-9._-]{1,6}))?$/;
/** Upper half of a slice's size field: the lower half is the size; there are no random bits. */
const OWN_SIZE_FLAGS = 0x8000_0000;
/** Bits of a trunk's size field above the random bits: a normal file below 4 GiB. */
const TRUNK_SIZE_FLAGS = 0x100;

/** Position and content of a slice, as in the trunk's directory. */
export interface SliceEntry {
  /** First byte of the content in the trunk. */
  readonly offset: number;
  /** Bytes. */
  readonly size: number;
  readonly crc32: number;
}

export interface SliceId extends SliceEntry {
  readonly trunk: FileId;
  /** Without its dot; empty if the file has none. */
  readonly extension: string;
}

export function isTrunkId(id: FileId): boolean {
  return (
    id.base.length === ENCODED_FIELDS_CHARS + TRUNK_TAIL.length && id.base.endsWith(TRUNK_TAIL)
  );
}

export function makeSliceId(trunk: FileId, entry: SliceEntry, extension: string): string {
  if (!isTrunkId(trunk)) throw new ProtocolError(`${formatFileId(trunk)} is not the id of a trunk`);
  if (!isExtension(extension)) throw new ProtocolError(`extension "${extension}"`);
  const fields = decodeFields(trunk.base);
  if (!isSmallNormalSizeField(fields.sizeField)) {
    throw new ProtocolError(`trunk ${formatFileId(trunk)} is not a normal file below 4 GiB`);
  }
  const own = encodeFields({
    ...fields,
    sizeField: normalSizeField(entry.size, 0),
    crc32: entry.crc32,
  });
  const rest = Buffer.alloc(16);
  rest.writeBigUInt64BE(fields.sizeField, 0);
  rest.writeUInt32BE(fields.crc32, 8);
  rest.writeUInt32BE(entry.offset, 12);
  const path = trunk.name.slice(0, trunk.name.length - trunk.base.length);
  const dotted = extension === '' ? '' : `.${extension}`;
  return `${trunk.group}/${path}${own}${rest.toString('base64url')}${dotted}`;
}

/**
 * Parses a slice id; undefined if the id is of another kind. It is part of every slice read, so it
 * works on raw bytes.
 */
export function parseSliceId(id: FileId | string): SliceId | undefined {
  const file = typeof id === 'string' ? parseFileId(id) : id;
  const match = file && SLICE_BASE.exec(file.base);
  if (!match) return undefined;
  const { group, storePathIndex, directory } = file;
  const own = Buffer.from(match[1]!, 'base64url');
  const rest = Buffer.from(match[2]!, 'base64url');
  if (own.readUInt32BE(8) !== OWN_SIZE_FLAGS) return undefined;
  if (rest.readUInt32BE(0) >>> RANDOM_BITS !== TRUNK_SIZE_FLAGS) return undefined;
  const size = own.readUInt32BE(12);
  const crc32 = own.readUInt32BE(16);
  const offset = rest.readUInt32BE(12);
  if (offset + size > rest.readUInt32BE(4)) return undefined;
  // Source and time are the trunk's own. Its size field and CRC-32 replace those of the slice.
  rest.copy(own, 8, 0, 12);
  const base = `${own.toString('base64url')}${TRUNK_TAIL}`;
  const name = `${file.name.slice(0, file.name.length - file.base.length)}${base}`;
  const trunk = { group, name, storePathIndex, directory, base };
  return { trunk, offset, size, crc32, extension: match[3] ?? '' };
}
