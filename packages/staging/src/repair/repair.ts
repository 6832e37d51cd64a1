import { type FileRow, localDamage } from '../filemap/filemap.js';
import { repairLarge } from './repair-large.js';
import { type RepairParts, soundBytes, soundSlice } from './sound-copies.js';
import { takeBack } from './take-back.js';
import { stageAgain } from './upkeep.js';

/**
 * Makes a damaged copy good from a sound one. A slice is staged again from the
 * container, or from a storage that has it sound, and goes into a coming trunk; a
 * damaged copy on this disk is given up once a storage has shown a sound one. A large
 * file goes back into the spool (repair-large.ts). One that was being moved is where it
 * was before (take-back.ts).
 */

/** Repairs that wait; what is beyond them is found again. */
const MAX_WANTED = 1_000;

/** True if no copy of the file that is read from now on is damaged. */
export async function repairFile(
  parts: RepairParts,
  key: Buffer,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { fileMap, quarantine } = parts;
  const row = fileMap.find(key);
  if (!row) return true;
  if (!row.trunk) return repairWaiting(parts, row, signal);
  const isMended = await (row.local.at === 'container'
    ? repairSmall(parts, row, signal)
    : repairLarge(parts, row, signal));
  if (isMended) quarantine.countRepaired();
  return isMended;
}

/** One that waits has no other copy, unless it was in FastDFS before. */
async function repairWaiting(
  parts: RepairParts,
  row: FileRow,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  if (!parts.quarantine.has(row.key, localDamage(row))) return false;
  return takeBack(parts, row, signal);
}

async function repairSmall(
  parts: RepairParts,
  row: FileRow,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { fileMap, quarantine } = parts;
  const isLocalBad = quarantine.has(row.key, 'container');
  const isTrunkBad = quarantine.holders(row.key).length > 0;
  const local = isLocalBad
    ? undefined
    : await soundBytes(parts.container, row).catch(() => undefined);
  if (isTrunkBad) {
    const bytes = local ?? (await soundSlice(parts, row, signal));
    if (!bytes || fileMap.find(row.key)?.trunk?.id !== row.trunk?.id) return false;
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
