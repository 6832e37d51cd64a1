import { ProtocolError } from './errors.js';
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
  sizeOfField,
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
 * Whoever reads by a slice id must first hold its offset, size and CRC-32
 * against the trunk's directory: the id alone can be forged.
 */

/** Extension of every trunk: six characters, so a storage adds no digits to it. */
export const TRUNK_EXTENSION = 'merged';

const TRUNK_TAIL = `.${TRUNK_EXTENSION}`;
const ENCODED_TRUNK_CHARS = 22;
const HEAD_CHARS = ENCODED_FIELDS_CHARS + ENCODED_TRUNK_CHARS;

/** Place and content of a slice, as trunk directories list them too. */
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

/** True for the id of a trunk itself. */
export function isTrunkId(id: FileId): boolean {
  return (
    id.base.length === ENCODED_FIELDS_CHARS + TRUNK_TAIL.length && id.base.endsWith(TRUNK_TAIL)
  );
}

/** The slice id of an entry of the trunk. */
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

/** Takes a slice id apart; undefined when the id is of another kind. */
export function parseSliceId(id: FileId | string): SliceId | undefined {
  const file = typeof id === 'string' ? parseFileId(id) : id;
  if (!file || file.base.length < HEAD_CHARS) return undefined;
  const tail = file.base.slice(HEAD_CHARS);
  if (tail !== '' && !/^\.[A-Za-z0-9._-]{1,6}$/.test(tail)) return undefined;
  const encoded = file.base.slice(ENCODED_FIELDS_CHARS, HEAD_CHARS);
  const rest = Buffer.from(encoded, 'base64url');
  // Unused low bits of the last character would give one slice several ids.
  if (rest.length !== 16 || rest.toString('base64url') !== encoded) return undefined;
  const own = file.base.slice(0, ENCODED_FIELDS_CHARS);
  const fields = decodeFields(own);
  const sizeField = rest.readBigUInt64BE(0);
  if (!isSmallNormalSizeField(sizeField) || encodeFields(fields) !== own) return undefined;
  const size = sizeOfField(fields.sizeField);
  if (fields.sizeField !== normalSizeField(size, 0)) return undefined;
  const offset = rest.readUInt32BE(12);
  if (offset + size > sizeOfField(sizeField)) return undefined;
  const trunkBase = `${encodeFields({ ...fields, sizeField, crc32: rest.readUInt32BE(8) })}${TRUNK_TAIL}`;
  const trunk = parseFileId(
    `${file.group}/${file.name.slice(0, file.name.length - file.base.length)}${trunkBase}`,
  );
  if (!trunk) return undefined;
  return { trunk, offset, size, crc32: fields.crc32, extension: tail.slice(1) };
}
