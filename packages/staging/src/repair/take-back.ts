import { type FileMap, type FileRow, localDamage } from '../filemap/filemap.js';
import { hasSoundHolder, type RepairParts, soundSlice } from './sound-copies.js';

/**
 * A file that was moved out of a trunk, or out of FastDFS whole, and whose new copy on this
 * disk is damaged before it is stored again: its old place is kept until then. Once a
 * storage has shown that the file is sound there, that is its place again.
 */

/** The waiting file at the place in FastDFS that it was moved from; undefined if that is gone. */
function formerRow(fileMap: FileMap, row: FileRow): FileRow | undefined {
  const place = row.was.at(-1);
  if (row.trunk || !place) return undefined;
  const [fileId, offset] = place;
  const trunk = fileMap.trunkByFileId(fileId);
  if (trunk?.state !== 'confirmed') return undefined;
  return { ...row, trunk: { id: trunk.id, kind: trunk.kind, fileId, offset } };
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
    former.trunk?.kind === 'whole'
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
  if (current.trunk) return true;
  const place = localDamage(current);
  const isBad = isSameCopy(row, current) || quarantine.has(row.key, place);
  if (!isBad || !former || !isSamePlace(former, formerRow(fileMap, current))) return false;
  if (!fileMap.takeBack(row.key)) return false;
  quarantine.lift(row.key, place);
  quarantine.countRepaired();
  if (current.local.at === 'container') return true;
  // A power failure may take the FileMap's changes: then its record speaks of the spool's file.
  await container.sync();
  await fileMap.checkpoint();
  if (fileMap.find(row.key)?.local.at !== 'spool') await spool.remove(row.key);
  return true;
}

function isSameCopy({ local: one }: FileRow, { local: other }: FileRow): boolean {
  return one.segment === other.segment && one.position === other.position && one.at === other.at;
}

function isSamePlace(one: FileRow, other: FileRow | undefined): boolean {
  return one.trunk?.id === other?.trunk?.id && one.trunk?.offset === other?.trunk?.offset;
}
