import { crc32 } from 'node:zlib';
import { BlockChecksums, isBlockListOf } from './block-checksums.js';
import type { FileMap, FileRow } from './filemap.js';
import type { Quarantine } from './quarantine.js';
import { repairLarge } from './repair-large.js';
import type { Serial } from './serial.js';
import type { SpoolWriter } from './spool.js';
import { readTrunk, stageAgain, type UpkeepParts } from './upkeep.js';

/**
 * Makes a damaged copy good from a sound one. A slice is staged again from the
 * container, or from a storage that has it sound, and goes into a coming trunk; a
 * damaged copy on this disk is given up once a storage has shown a sound one. A large
 * file goes back into the spool (repair-large.ts).
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
const MAX_WANTED = 1_000;

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

/** True if no copy of the file that is read from now on is damaged. */
export async function repairFile(
  parts: RepairParts,
  key: Buffer,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { fileMap, quarantine } = parts;
  const row = fileMap.find(key);
  if (!row || row.trunk === null) return row === undefined;
  const isMended = await (row.spooled > 0
    ? repairLarge(parts, row, signal)
    : repairSmall(parts, row, signal));
  if (isMended) quarantine.countRepaired();
  return isMended;
}

async function repairSmall(
  parts: RepairParts,
  row: FileRow,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { fileMap, quarantine } = parts;
  const isLocalBad = quarantine.has(row.key, 'container');
  const isTrunkBad = quarantine.holders(row.key).length > 0;
  const local = isLocalBad ? undefined : await localBytes(parts, row);
  if (isTrunkBad) {
    const bytes = local ?? (await soundSlice(parts, row, signal));
    if (!bytes || fileMap.find(row.key)?.trunk !== row.trunk) return false;
    await stageAgain(parts, row, bytes);
    quarantine.forget(row.key);
    return true;
  }
  if (!isLocalBad) return true;
  if (!(await soundSlice(parts, row, signal))) return false;
  fileMap.forgetLocal(row.key);
  quarantine.lift(row.key, 'container');
  return true;
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

async function localBytes({ container }: RepairParts, row: FileRow): Promise<Buffer | undefined> {
  const bytes = await container.segment(row.segment)?.read(row.position, row.size);
  return bytes?.length === row.size && crc32(bytes) === row.crc32 ? bytes : undefined;
}

/** Repairs what reads have found, one file at a time, in the background. */
export class Repairs {
  readonly #parts: RepairParts;
  readonly #stopped = new AbortController();
  readonly #wanted = new Map<string, Buffer>();
  #running: Promise<void> | undefined;

  constructor(parts: RepairParts) {
    this.#parts = parts;
  }

  /** With too many at once, the next scrub finds the rest. */
  want(key: Buffer): void {
    if (this.#stopped.signal.aborted || this.#wanted.size >= MAX_WANTED) return;
    this.#wanted.set(key.toString('latin1'), key);
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#wanted.clear();
    await this.#running;
  }

  async #run(): Promise<void> {
    for (const [name, key] of this.#wanted) {
      if (this.#stopped.signal.aborted) return;
      // What fails is found again by the next scrub, or the next read.
      await repairFile(this.#parts, key, this.#stopped.signal).catch(() => false);
      this.#wanted.delete(name);
    }
  }
}
