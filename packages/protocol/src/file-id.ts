import { ProtocolError } from './bytes.js';

/**
 * FastDFS file ids:
 *
 *     group1 / M00 / 3F / A2 / <27 characters> <tail>
 *     group   path   directory  20 bytes        digits, dot, extension
 *
 * The 20 bytes are source (4), creation time (4), size field (8) and CRC-32 (4),
 * base64 with the URL-safe alphabet and no padding. The tail is 7 characters; an
 * extension shorter than 6 is padded in front of its dot with random digits.
 */

export const ENCODED_FIELDS_CHARS = 27;
export const TAIL_CHARS = 7;
/** `M00/3F/A2/` */
const PATH_CHARS = 10;
export const NORMAL_NAME_CHARS = PATH_CHARS + ENCODED_FIELDS_CHARS + TAIL_CHARS;
/** Names of slots in stock trunk files have 16 more characters. */
const SLOT_NAME_CHARS = NORMAL_NAME_CHARS + 16;

const SIZE_IN_LOW_HALF = 1n << 63n;
const TRUNK_SLOT = 1n << 59n;
const APPENDER = 1n << 58n;
/** Bits 54 to 32: 23 random bits that tell equal files apart. */
const RANDOM_SHIFT = 32n;
export const RANDOM_BITS = 23;
const RANDOM_MASK = (1n << BigInt(RANDOM_BITS)) - 1n;
const LOW_HALF = 0xffff_ffffn;
const FOUR_GIB = 2 ** 32;
/** Source fields up to here are storage ids, little-endian; above, IPv4 addresses. */
const MAX_STORAGE_ID = 0xff_ffff;

const GROUP = /^[A-Za-z0-9]{1,16}$/;
/** Dots can occur only after the 27 characters, which are base64. */
const NAME =
  /^M([0-9A-F]{2})\/([0-9A-F]{2})\/([0-9A-F]{2})\/([A-Za-z0-9_-]{27}[A-Za-z0-9._-]{0,80})$/;
const EXTENSION = /^[A-Za-z0-9._-]{0,6}$/;

export interface FileId {
  readonly group: string;
  /** Everything after the group: `M00/3F/A2/...` */
  readonly name: string;
  readonly storePathIndex: number;
  /** The two directory levels, `3F` and `A2`. */
  readonly directory: readonly [string, string];
  /** The last part of the name: the 27 characters and what follows them. */
  readonly base: string;
}

/** The 20 bytes inside a name. */
export interface NameFields {
  /** IPv4 address or decimal storage id of the storage that first took the file. */
  readonly source: string;
  /** Unix seconds. */
  readonly createdAtSeconds: number;
  readonly sizeField: bigint;
  readonly crc32: number;
}

export type FileKind = 'normal' | 'appender' | 'slave' | 'slot';

/** True for 1 to 16 letters and digits. */
export function isGroupName(text: string): boolean {
  return GROUP.test(text);
}

/** True for an extension that a storage accepts, the empty one included. */
export function isExtension(text: string): boolean {
  return EXTENSION.test(text);
}

/**
 * The extension that FastDFS keeps for this file name: what follows the last dot, or empty if that
 * is longer than 6 or has characters other than letters and digits.
 */
export function extensionOf(fileName: string): string {
  const match = /\.([A-Za-z0-9]{1,6})$/.exec(fileName);
  return match?.[1] ?? '';
}

/** Parses a full id; undefined if it is malformed. */
export function parseFileId(text: string): FileId | undefined {
  // Apps in JavaScript hand on a parameter that is not there.
  const slash = typeof text === 'string' ? text.indexOf('/') : -1;
  if (slash < 1) return undefined;
  const group = text.slice(0, slash);
  return isGroupName(group) ? parseFileName(group, text.slice(slash + 1)) : undefined;
}

/** As `parseFileId`, with the group given separately, as in requests. */
export function parseFileName(group: string, name: string): FileId | undefined {
  const match = NAME.exec(name);
  if (!match) return undefined;
  return {
    group,
    name,
    storePathIndex: Number.parseInt(match[1]!, 16),
    directory: [match[2]!, match[3]!],
    base: match[4]!,
  };
}

export function formatFileId(id: Pick<FileId, 'group' | 'name'>): string {
  return `${id.group}/${id.name}`;
}

/** Decodes the first 27 characters of a base name. */
export function decodeFields(base: string): NameFields {
  const bytes = fieldBytes(base);
  return {
    source: decodeSource(bytes),
    createdAtSeconds: bytes.readInt32BE(4),
    sizeField: bytes.readBigUInt64BE(8),
    crc32: bytes.readUInt32BE(16),
  };
}

function fieldBytes(base: string): Buffer {
  const bytes = Buffer.from(base.slice(0, ENCODED_FIELDS_CHARS), 'base64url');
  if (bytes.length === 20) return bytes;
  throw new ProtocolError(`"${base}" does not begin with 27 base64 characters`);
}

/** As `decodeFields`, for the size field alone, which each download needs. */
export function decodeSizeField(base: string): bigint {
  return fieldBytes(base).readBigUInt64BE(8);
}

/**
 * Encodes the first 27 characters of a base name. `source` is an IPv4 address or a decimal storage
 * id.
 */
export function encodeFields(fields: NameFields): string {
  const bytes = Buffer.alloc(20);
  encodeSource(fields.source, bytes);
  bytes.writeInt32BE(fields.createdAtSeconds, 4);
  bytes.writeBigUInt64BE(fields.sizeField, 8);
  bytes.writeUInt32BE(fields.crc32 >>> 0, 16);
  return bytes.toString('base64url');
}

/** The size field of a normal file; `random` fills bits 54 to 32 below 4 GiB. */
export function normalSizeField(size: number, random: number): bigint {
  if (size >= FOUR_GIB) return BigInt(size);
  return SIZE_IN_LOW_HALF | ((BigInt(random) & RANDOM_MASK) << RANDOM_SHIFT) | BigInt(size);
}

/** Size of the file that the name encodes; 0 for appenders. */
export function sizeOfField(sizeField: bigint): number {
  const lowHalfOnly = (sizeField & (SIZE_IN_LOW_HALF | TRUNK_SLOT)) !== 0n;
  return Number(lowHalfOnly ? sizeField & LOW_HALF : sizeField);
}

/** The size field of an appender file; `random` fills bits 54 to 32. */
export function appenderSizeField(random: number): bigint {
  return SIZE_IN_LOW_HALF | APPENDER | ((BigInt(random) & RANDOM_MASK) << RANDOM_SHIFT);
}

/** True for the size field of a normal file below 4 GiB, the only kind that our trunks have. */
export function isSmallNormalSizeField(sizeField: bigint): boolean {
  return sizeField >> (RANDOM_SHIFT + BigInt(RANDOM_BITS)) === 1n << 8n;
}

/** The kind, by stock FastDFS's heuristic over name length and flag bits. */
export function fileKind(id: FileId, sizeField = decodeSizeField(id.base)): FileKind {
  const slot = (sizeField & TRUNK_SLOT) !== 0n;
  if ((sizeField & APPENDER) !== 0n && (sizeField & SIZE_IN_LOW_HALF) !== 0n) return 'appender';
  if (id.name.length > SLOT_NAME_CHARS || (id.name.length > NORMAL_NAME_CHARS && !slot)) {
    return 'slave';
  }
  return slot ? 'slot' : 'normal';
}

/** As `fileKind`; undefined for a name that does not encode a file. */
export function kindOf(id: FileId): FileKind | undefined {
  try {
    return fileKind(id);
  } catch {
    return undefined;
  }
}

/** The 7-character tail: `(6 - n)` digits, a dot and the extension, or 7 digits without one. */
export function encodeTail(extension: string, randomDigits: string): string {
  if (!isExtension(extension)) throw new ProtocolError(`extension "${extension}"`);
  if (extension === '') return randomDigits.slice(0, TAIL_CHARS);
  return `${randomDigits.slice(0, TAIL_CHARS - 1 - extension.length)}.${extension}`;
}

/** `M00/3F/A2/` */
export function encodePath(storePathIndex: number, high: number, low: number): string {
  return `M${hexByte(storePathIndex)}/${hexByte(high)}/${hexByte(low)}/`;
}

/** Two upper-case hexadecimal digits. */
export function hexByte(value: number): string {
  return value.toString(16).toUpperCase().padStart(2, '0');
}

/**
 * The name of a slave file: the master's name up to its extension, the prefix, and `extension`, or
 * the master's extension if undefined. Throws ProtocolError for a prefix or master that stock
 * storages refuse too.
 */
export function slaveName(master: string, prefix: string, extension: string | undefined): string {
  const withPath = master.startsWith('M');
  // `M00/` in front does not count.
  if (master.length - (withPath ? 4 : 0) < 34) throw new ProtocolError(`master name "${master}"`);
  const tailAt = master.length - TAIL_CHARS;
  const dot = master.indexOf('.', tailAt);
  const stem = dot === -1 ? master : master.slice(0, dot);
  const own = dot === -1 ? '' : master.slice(dot + 1);
  const chosen = (extension ?? own).replace(/^\./, '');
  if (prefix === '-m' && chosen === '') {
    throw new ProtocolError('prefix "-m" without extension is the name of metadata');
  }
  if (prefix === '' && chosen === own) throw new ProtocolError('a slave needs a prefix');
  return `${stem}${prefix}${chosen === '' ? '' : `.${chosen}`}`;
}

function decodeSource(bytes: Buffer): string {
  const asId = bytes.readUInt32LE(0);
  if (asId > 0 && asId <= MAX_STORAGE_ID) return String(asId);
  return bytes.subarray(0, 4).join('.');
}

function encodeSource(source: string, target: Buffer): void {
  const parts = source.split('.');
  if (parts.length === 4) {
    for (const [index, part] of parts.entries()) target.writeUInt8(Number(part), index);
    return;
  }
  const id = Number(source);
  if (!Number.isInteger(id) || id < 1 || id > MAX_STORAGE_ID) {
    throw new ProtocolError(`source "${source}" is neither an IPv4 address nor a storage id`);
  }
  target.writeUInt32LE(id, 0);
}
