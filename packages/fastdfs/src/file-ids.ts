import {
  decodeFields,
  type FileId,
  type FileKind,
  type FileName,
  fileKind,
  type NameFields,
  parseFileId,
  sizeOfField,
  TAIL_CHARS,
} from '@stevedore/protocol';
import { invalid } from './body.js';

/** What a file id contains by itself, without asking a server. */

export interface FileDescription {
  readonly group: string;
  /** The id without its group. */
  readonly name: string;
  /**
   * `slot` is a file in a trunk of a stock storage. A slave is recognized by the length of its
   * name: one with a short prefix and no extension is taken for a normal file, by the servers too.
   */
  readonly kind: FileKind;
  /**
   * Bytes; undefined for appenders, which can change, and slaves, whose names have their master's.
   */
  readonly size: number | undefined;
  /** CRC-32, unsigned; undefined as `size` is. */
  readonly crc32: number | undefined;
  /** For slaves, the time of the master. */
  readonly createdAt: Date;
  /** IPv4 address or storage id of the storage that first took the file. */
  readonly source: string;
  /** Without its dot; may be empty. */
  readonly extension: string;
  readonly storePathIndex: number;
}

/** Throws FastdfsError `invalid_argument`. */
export function checkFileId(operation: string, fileId: string): FileId {
  const id = typeof fileId === 'string' ? parseFileId(fileId) : undefined;
  if (!id) throw invalid(operation, `"${fileId}" is not a file id`);
  return id;
}

export function nameOf(id: FileId): FileName {
  return { group: id.group, name: id.name };
}

/** Throws FastdfsError `invalid_argument` for an invalid file id. */
export function describeFile(fileId: string): FileDescription {
  const id = checkFileId('describe', fileId);
  const { kind, size, crc32, createdAtSeconds, source } = factsOf(id);
  return {
    group: id.group,
    name: id.name,
    kind,
    size,
    crc32: size === undefined ? undefined : crc32,
    createdAt: new Date(createdAtSeconds * 1000),
    source,
    extension: storedExtension(id.name),
    storePathIndex: id.storePathIndex,
  };
}

export interface IdFacts extends NameFields {
  readonly kind: FileKind;
  /** Undefined if the id does not have it. */
  readonly size: number | undefined;
}

export function factsOf(id: FileId): IdFacts {
  const fields = decodeFields(id.base);
  const kind = fileKind(id, fields.sizeField);
  const told = kind === 'normal' || kind === 'slot' ? sizeOfField(fields.sizeField) : undefined;
  // An impossible size means that the id was made up.
  return { ...fields, kind, size: Number.isSafeInteger(told) ? told : undefined };
}

/** The extension in the tail of a name. */
export function storedExtension(name: string): string {
  const dot = name.indexOf('.', name.length - TAIL_CHARS);
  return dot === -1 ? '' : name.slice(dot + 1);
}
