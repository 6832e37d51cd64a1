import type { Container } from '../container/container.js';
import type { Spool } from '../container/spool.js';
import { StoreError } from '../errors.js';
import type { FileMap, FileRow } from '../filemap/filemap.js';
import { waitingIn } from '../merge/waiting-files.js';
import { neededRecords } from '../upkeep/retention.js';
import { soundBytes } from './sound-copies.js';

/**
 * Files that the FileMap knows and the disk does not have: with durability `os` a power
 * failure may take records that no sync had made durable, and leave the FileMap, which
 * SQLite syncs by itself now and then. Found at start: what was moved is where it was
 * before, the others are quarantined, so that reading one is an error and never anything
 * else. What the FileMap knows of trunks and deletions beyond those records is recorded
 * anew, durably.
 */
export interface LostTailParts {
  readonly container: Container;
  readonly spool: Spool;
  readonly fileMap: FileMap;
  readonly now: () => number;
}

/** `segments`: of which the FileMap knows more than the disk has. Undefined if nothing is lost. */
export async function settleLostTail(
  parts: LostTailParts,
  segments: readonly number[],
): Promise<StoreError | undefined> {
  const { container, fileMap, now } = parts;
  let lost = 0;
  for (const number of segments) {
    for (const row of waitingIn(fileMap, number)) {
      if (row.local.at === 'container' && !(await soundBytes(container, row)))
        lost += giveUp(parts, row, 'container');
    }
    const records = neededRecords(fileMap, number, now());
    if (records.length > 0) await container.append(records, true);
    if (!container.segment(number)) fileMap.forgetSegment(number);
  }
  for (const row of fileMap.waitingSpooled(Number.MAX_SAFE_INTEGER)) {
    if (parts.spool.sizeOf(row.key) !== row.size) lost += giveUp(parts, row, 'spool');
  }
  if (lost === 0) return undefined;
  return new StoreError(
    'corrupt',
    `${lost} file(s) were acknowledged before the disk had them, and a power failure took them; reading one is an error, deleting it ends the matter`,
  );
}

/** 1 if no copy of it is left. */
function giveUp({ fileMap, now }: LostTailParts, row: FileRow, place: 'container' | 'spool') {
  if (fileMap.takeBack(row.key)) return 0;
  fileMap.loseFile(row.key);
  return fileMap.addDamage({ key: row.key, place, holder: '', foundAt: now() }) ? 1 : 0;
}
