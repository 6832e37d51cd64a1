import { crc32 } from 'node:zlib';
import { isMediumFailure } from '@stevedore/disk';
import type { Segment } from '../container/segment.js';
import { Unreadable } from '../container/segment.js';
import { type FileRow, localDamage } from '../filemap/filemap.js';
import type { Stores } from '../merge/trunk-store.js';
import { type WaitingFiles, waitingIn } from '../merge/waiting-files.js';
import type { Quarantine } from '../repair/quarantine.js';
import { stageAgain } from '../repair/sound-copies.js';

/**
 * Sets damaged files aside. A file that waits and whose only copy is damaged can go into no trunk,
 * and would keep its segment and all later ones for ever. Before such a segment is removed, its
 * bytes, damaged as they are, go into the spool, with a record in the newest segment. Large files
 * are in the spool already: only their record is written again. A file that the disk cannot read
 * may be readable later: it keeps its segment until room is needed, then what can be read is kept.
 */
export interface SetAsideParts extends Stores {
  readonly quarantine: Quarantine;
  readonly files: WaitingFiles;
}

/**
 * False if the segment must stay: a file that waits in it is sound, or cannot be read and
 * the room is not needed.
 */
export async function setAside(
  parts: SetAsideParts,
  segment: number,
  isRoomNeeded: boolean,
): Promise<boolean> {
  for (const row of [...waitingIn(parts.fileMap, segment)]) {
    if (!parts.quarantine.has(row.key, localDamage(row))) return false;
    if (row.local.at === 'container' && !(await keepInSpool(parts, row, isRoomNeeded)))
      return false;
    await recordInSpool(parts, row);
  }
  return waitingIn(parts.fileMap, segment).next().done === true;
}

async function keepInSpool(
  { container, spool }: SetAsideParts,
  row: FileRow,
  isRoomNeeded: boolean,
): Promise<boolean> {
  const segment = container.segment(row.local.segment);
  // The disk may recover, and what it gives then may be sound.
  const bytes = await (segment && bytesOf(segment, row, isRoomNeeded).catch(() => undefined));
  if (bytes?.length !== row.size || crc32(bytes) === row.crc32) return false;
  const writer = await spool.beginAgain(row.key);
  try {
    await writer.write([bytes]);
    await writer.finish(true);
  } catch (error) {
    await writer.discard();
    throw error;
  }
  return true;
}

async function bytesOf(segment: Segment, row: FileRow, isRoomNeeded: boolean): Promise<Buffer> {
  // Most often nothing has changed, and the next attempt comes soon.
  if (!isRoomNeeded) return segment.read(row.local.position, row.size);
  try {
    return await segment.readFirmly(row.local.position, row.size);
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return readableBytes(segment, row);
  }
}

/** If the record is refused, the next start removes the spool's file, as no record names it. */
async function recordInSpool(parts: SetAsideParts, row: FileRow): Promise<void> {
  const { spool, fileMap, quarantine, files } = parts;
  await stageAgain(parts, [{ row, bytes: undefined }]);
  if (!fileMap.find(row.key)) return spool.remove(row.key);
  quarantine.keep(row.key, 'spool');
  // No trunk can have it; it is a large file to the Merge Task from now on.
  files.exclude(row.key);
}

/** What a disk gives or refuses at a time. */
const PIECE_BYTES = 4096;

/** What can be read of them, with zeros for the rest. */
async function readableBytes(segment: Segment, row: FileRow): Promise<Buffer> {
  const bytes = Buffer.alloc(row.size);
  for (let at = 0; at < row.size; ) {
    // Up to the next border of a piece in the file.
    const from = row.local.position + at;
    const count = Math.min(PIECE_BYTES - (from % PIECE_BYTES), row.size - at);
    try {
      bytes.set(await segment.read(from, count), at);
    } catch (error) {
      if (!isMediumFailure(error)) throw error;
    }
    at += count;
  }
  return bytes;
}
