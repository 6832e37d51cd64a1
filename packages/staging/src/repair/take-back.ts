import type { FileMap, FileRow } from '../filemap/filemap.js';
import { placesOf } from '../filemap/filemap.js';
import { hasSoundHolder, type RepairParts, soundSlice } from './sound-copies.js';

/**
 * A file that was moved out of a trunk, or out of FastDFS whole, and whose new copy on this
 * disk is damaged before it is stored again: its old place is kept until then. Once a
 * storage has shown that the file is sound there, that is its place again.
 */

/** The waiting file at the place in FastDFS that it was moved from; undefined if that is gone. */
function formerRow(fileMap: FileMap, row: FileRow): FileRow | undefined {
  if (row.trunk !== null) return undefined;
  const [trunkFileId, trunkOffset] = placesOf(row).at(-1) ?? [];
  if (trunkFileId === undefined || trunkOffset === undefined) return undefined;
  const trunk = fileMap.trunkByFileId(trunkFileId);
  if (trunk?.state !== 'confirmed') return undefined;
  return { ...row, trunk: trunk.id, trunkKind: trunk.kind, trunkFileId, trunkOffset };
}

/**
 * True if FastDFS has it sound and is where it is read from. False if it has no such place,
 * or no storage has it sound there. Rejects while FastDFS is away.
 */
export async function takeBack(
  parts: RepairParts,
  row: FileRow,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const former = formerRow(parts.fileMap, row);
  if (!former) return false;
  const isSound =
    former.trunkKind === 'whole'
      ? await hasSoundHolder(parts, former, signal)
      : (await soundSlice(parts, former, signal)) !== undefined;
  // What is damaged and waits may be set aside just now.
  return parts.alone(() => putBack(parts, row, isSound ? former : undefined));
}

/** `former`: where the file is known to be sound. */
async function putBack(
  { container, fileMap, quarantine, spool }: RepairParts,
  row: FileRow,
  former: FileRow | undefined,
): Promise<boolean> {
  const current = fileMap.find(row.key);
  if (!current) return false;
  // Somebody else was first, or it was stored meanwhile.
  if (current.trunk !== null) return true;
  const place = current.spooled > 0 ? 'spool' : 'container';
  const isBad = isSameCopy(row, current) || quarantine.has(row.key, place);
  if (!isBad || !former || !isSamePlace(former, formerRow(fileMap, current))) return false;
  if (!fileMap.takeBack(row.key)) return false;
  quarantine.lift(row.key, place);
  quarantine.countRepaired();
  if (current.spooled === 0) return true;
  // A power failure may take the FileMap's changes: then its record speaks of the spool's file.
  await container.sync();
  await fileMap.checkpoint();
  if (fileMap.find(row.key)?.spooled !== 1) await spool.remove(row.key);
  return true;
}

function isSameCopy(row: FileRow, { segment, position, spooled }: FileRow): boolean {
  return segment === row.segment && position === row.position && spooled === row.spooled;
}

function isSamePlace(one: FileRow, other: FileRow | undefined): boolean {
  return one.trunk === other?.trunk && one.trunkOffset === other.trunkOffset;
}
