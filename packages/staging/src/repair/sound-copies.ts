import { crc32 } from 'node:zlib';
import type { Serial } from '@stevedore/disk';
import { BlockChecksums, isBlockListOf } from '../container/block-checksums.js';
import type { SpoolWriter } from '../container/spool.js';
import type { FileMap, FileRow } from '../filemap/filemap.js';
import type { Quarantine } from './quarantine.js';
import { readTrunk, type UpkeepParts } from './upkeep.js';

/**
 * Which storages have a file sound, and its bytes from one of them: what every repair
 * begins with. A copy that turns out to be damaged is quarantined on the way.
 */
export interface RepairParts extends UpkeepParts {
  readonly quarantine: Quarantine;
  readonly fileMap: FileMap;
  /** Makes room for so many bytes and brings a file back into the spool. */
  readonly beginAgain: (key: Buffer, bytes: number) => Promise<SpoolWriter>;
  /** Does the work while nothing is removed from container and spool. */
  readonly alone: Serial;
  /** Large files are repaired one after the other. */
  readonly inTurn: Serial;
}

/** One ranged read of a large file. */
export const PART_BYTES = 2 ** 20;

/** True if the file's bytes at the storage are sound; also learns its block checksums. */
export async function isSoundAt(
  parts: Pick<RepairParts, 'fileMap' | 'trunkStore'>,
  row: FileRow,
  holder: string | undefined,
  signal: AbortSignal | undefined,
  onBytes: (bytes: number) => Promise<void> = () => Promise.resolve(),
): Promise<boolean> {
  const checksums = new BlockChecksums();
  const trunk = { fileId: row.trunkFileId };
  for (let at = 0; at < row.size; at += PART_BYTES) {
    const count = Math.min(PART_BYTES, row.size - at);
    const offset = row.trunkOffset! + at;
    const bytes = await readTrunk(parts.trunkStore, trunk, offset, count, signal, holder);
    if (bytes?.length !== count) return false;
    checksums.add(bytes);
    await onBytes(count);
  }
  if (checksums.crc32 !== row.crc32) return false;
  if (row.spooled > 0) learnBlocks(parts.fileMap, row, checksums.list());
  return true;
}

/** Keeps the checksums of a large file's blocks if it has none that are right. */
export function learnBlocks(fileMap: FileMap, row: FileRow, list: Buffer): void {
  const known = fileMap.blocks(row.key);
  if (known && isBlockListOf(known, row)) return;
  if (fileMap.find(row.key) && isBlockListOf(list, row)) fileMap.setBlocks(row.key, list);
}

/** The slice from a storage whose copy is sound. */
export async function soundSlice(
  parts: RepairParts,
  row: FileRow,
  signal: AbortSignal | undefined,
): Promise<Buffer | undefined> {
  if (row.size === 0) return Buffer.alloc(0);
  const trunk = { fileId: row.trunkFileId };
  for (const holder of await goodHolders(parts, row, signal)) {
    const bytes = await readTrunk(
      parts.trunkStore,
      trunk,
      row.trunkOffset!,
      row.size,
      signal,
      holder,
    ).catch(() => undefined);
    if (bytes?.length === row.size && crc32(bytes) === row.crc32) return bytes;
    if (bytes) parts.quarantine.add(row, 'trunk', holder);
  }
  return undefined;
}

/** Storages that have the file, and none that is known to be damaged. */
export async function goodHolders(
  { trunkStore, quarantine }: RepairParts,
  row: FileRow,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const bad = quarantine.holders(row.key);
  const { holders } = await trunkStore.copies(
    row.trunkFileId!,
    signal ?? AbortSignal.timeout(30_000),
  );
  return holders.filter((holder) => !bad.includes(holder));
}

/** True if a storage has shown that its copy of the large file is sound. */
export async function hasSoundHolder(
  parts: RepairParts,
  row: FileRow,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  for (const holder of await goodHolders(parts, row, signal)) {
    const isSound = await isSoundAt(parts, row, holder, signal).catch(() => undefined);
    if (isSound) return true;
    if (isSound === false) parts.quarantine.add(row, 'trunk', holder);
  }
  return false;
}
