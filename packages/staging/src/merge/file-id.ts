import {
  decodeFields,
  extensionOf,
  type FileId,
  isSmallNormalSizeField,
  isTrunkId,
  makeSliceId,
  parseFileId,
} from '@stevedore/protocol';
import type { FileRow } from '../filemap/filemap.js';

/** The FastDFS id of a merged file: its trunk's own for a large file, a slice id for all others. */

/**
 * Undefined while the file has none, and for one in a trunk from whose id no slice id
 * can be made, as a cluster gives them that merges by itself: such a file is read by key.
 */
export function fileIdOf(row: FileRow): string | undefined {
  const { trunk } = row;
  if (!trunk || trunk.kind === 'whole') return trunk?.fileId;
  return sliceIdOf(row, trunk.fileId, trunk.offset);
}

/** The slice id of a file at this place of a trunk; undefined when none can be made. */
export function sliceIdOf(row: FileRow, trunkFileId: string, offset: number): string | undefined {
  const trunk = parseFileId(trunkFileId);
  if (!trunk || !canHoldSlices(trunk)) return undefined;
  const entry = { offset, size: row.size, crc32: row.crc32 };
  return makeSliceId(trunk, entry, extensionOf(row.name));
}

/** True if slice ids can be made from the id of a trunk. */
export function canHoldSlices(id: FileId): boolean {
  return isTrunkId(id) && isSmallNormalSizeField(decodeFields(id.base).sizeField);
}
