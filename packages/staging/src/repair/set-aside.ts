import { crc32 } from 'node:zlib';
import { isMediumFailure } from '@stevedore/disk';
import type { Segment } from '../container/segment.js';
import { Unreadable } from '../container/segment.js';
import { type FileRow, localDamage } from '../filemap/filemap.js';
import { waitingIn } from '../merge/waiting-files.js';
import type { State } from '../state.js';
import { stageAgain } from './sound-bytes.js';

/**
 * Sets damaged files aside. A waiting file whose only copy is damaged cannot go into a trunk and
 * would keep its segment and all later ones for ever. Before such a segment is removed, the damaged
 * bytes go into the spool as they are, with a record in the newest segment. Large files are in the
 * spool already: only their record is rewritten. A file that the disk cannot read may be readable
 * later: it keeps its segment until room is needed, then the readable part is kept.
 */
/**
 * False if the segment must stay: a file that waits in it is sound, or is unreadable and the room
 * is not needed.
 */
export async function setAside(
  state: State,
  segment: number,
  isRoomNeeded: boolean,
): Promise<boolean> {
  for (const row of [...waitingIn(state.fileMap, segment)]) {
    if (!state.quarantine.has(row.key, localDamage(row))) return false;
    if (row.local.at === 'container' && !(await keepInSpool(state, row, isRoomNeeded)))
      return false;
    await recordInSpool(state, row);
  }
  return waitingIn(state.fileMap, segment).next().done === true;
}

async function keepInSpool(
  { container, spool }: State,
  row: FileRow,
  isRoomNeeded: boolean,
): Promise<boolean> {
  const segment = container.segment(row.local.segment);
  // The disk may recover, and the bytes may turn out sound.
  const bytes = await (segment && bytesOf(segment, row, isRoomNeeded).catch(() => undefined));
  if (bytes?.length !== row.size || crc32(bytes) === row.crc32) return false;
  const writer = await spool.begin(row.key, true);
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
  // Usually nothing has changed, and the next attempt comes soon.
  if (!isRoomNeeded) return segment.read(row.local.position, row.size);
  try {
    return await segment.readFirmly(row.local.position, row.size);
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return readableBytes(segment, row);
  }
}

/** If the record is refused, the next start removes the spool's file, as no record names it. */
async function recordInSpool(state: State, row: FileRow): Promise<void> {
  const { spool, fileMap, quarantine, files } = state;
  await stageAgain(state, [{ row, bytes: undefined }]);
  if (!fileMap.find(row.key)) return spool.remove(row.key);
  quarantine.keep(row.key, 'spool');
  // It cannot go into a trunk; the Merge Task treats it as a large file from now on.
  files.exclude(row.key);
}

/** Unit in which a disk reads or fails. */
const PIECE_BYTES = 4096;

/** Reads the readable bytes, with zeros for the rest. */
async function readableBytes(segment: Segment, row: FileRow): Promise<Buffer> {
  const bytes = Buffer.alloc(row.size);
  for (let at = 0; at < row.size; ) {
    // Up to the next piece boundary of the segment.
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
