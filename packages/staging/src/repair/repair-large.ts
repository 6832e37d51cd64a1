import type { FileRow } from '../filemap/filemap.js';
import {
  goodHolders,
  hasSoundHolder,
  learnBlocks,
  PART_BYTES,
  type RepairParts,
} from './sound-copies.js';
import { readTrunk, stageAgain } from './upkeep.js';

/**
 * Repairs a large file. Where a storage's copy is damaged, the file goes back into the
 * spool from a copy that is sound and is stored again, whole, under a new FastDFS id; the
 * damaged one is deleted, at all storages, once the new one is confirmed. A damaged copy
 * in the spool is given up once a storage has shown a sound one.
 *
 * The spool's file is whole, checked and durable before the record that makes it the
 * file's place. If that record is refused, the file stays for the next attempt, or until
 * the next start, which removes what no record speaks of.
 */
export function repairLarge(
  parts: RepairParts,
  row: FileRow,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  return parts.inTurn(async () => {
    const current = parts.fileMap.find(row.key);
    // Another repair came first, or it was deleted.
    if (!current || current.trunk?.id !== row.trunk?.id) return true;
    return repair(parts, current, signal);
  });
}

async function repair(
  parts: RepairParts,
  row: FileRow,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { fileMap, spool, quarantine } = parts;
  const isAnyBad = quarantine.holders(row.key).length > 0;
  if (quarantine.has(row.key, 'spool')) {
    if (!(await hasSoundHolder(parts, row, signal))) return false;
    await spool.remove(row.key);
    fileMap.forgetSpooled(row.key);
    quarantine.lift(row.key, 'spool');
  }
  if (!isAnyBad) return true;
  const isBack = (await isSoundInSpool(parts, row)) || (await fetchToSpool(parts, row, signal));
  return isBack && storeAgain(parts, row);
}

async function isSoundInSpool(
  { fileMap, spool, quarantine }: RepairParts,
  row: FileRow,
): Promise<boolean> {
  if (!spool.has(row.key)) return false;
  const list = await spool.checksums(row.key, row, () => Promise.resolve());
  if (list) learnBlocks(fileMap, row, list);
  else quarantine.add(row, 'spool');
  return list !== undefined;
}

/** From the first storage whose copy turns out to be sound. */
async function fetchToSpool(
  parts: RepairParts,
  row: FileRow,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  if (parts.spool.has(row.key)) return false;
  for (const holder of await goodHolders(parts, row, signal)) {
    const isSound = await fetchFrom(parts, row, holder, signal);
    if (isSound) return true;
    if (isSound === false) parts.quarantine.add(row, 'trunk', holder);
  }
  return false;
}

/** False when the storage's bytes are not the file; undefined when they could not be had. */
async function fetchFrom(
  { fileMap, trunkStore, beginAgain }: RepairParts,
  row: FileRow,
  holder: string,
  signal: AbortSignal | undefined,
): Promise<boolean | undefined> {
  const writer = await beginAgain(row.key, row.size);
  let isSound: boolean | undefined;
  try {
    const trunk = row.trunk!;
    while (writer.size < row.size) {
      const count = Math.min(PART_BYTES, row.size - writer.size);
      const bytes = await readTrunk(trunkStore, trunk, writer.size, count, signal, holder);
      if (bytes?.length !== count) break;
      await writer.write([bytes]);
    }
    isSound = writer.size === row.size && writer.crc32 === row.crc32;
    if (isSound) await writer.finish(true);
    if (isSound) learnBlocks(fileMap, row, writer.blocks);
  } catch {
    isSound = undefined;
  }
  if (isSound !== true) await writer.discard();
  return isSound;
}

/** The file waits again, as when it was new. */
async function storeAgain(parts: RepairParts, row: FileRow): Promise<boolean> {
  const { fileMap, spool, quarantine } = parts;
  const isDone = await parts.alone(async () => {
    await spool.syncNames();
    const isThere = spool.has(row.key) && fileMap.find(row.key)?.trunk?.id === row.trunk?.id;
    if (isThere) await stageAgain(parts, row, undefined);
    return isThere;
  });
  if (!fileMap.find(row.key)) await spool.remove(row.key);
  if (isDone) quarantine.forget(row.key);
  return isDone;
}
