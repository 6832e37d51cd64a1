import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import type { FileRow, TrunkRow } from './filemap.js';
import { formatKey } from './key.js';
import {
  allFiles,
  ROWS_PER_PAGE,
  readTrunk,
  stageAgain,
  stopped,
  type UpkeepOptions,
  type UpkeepParts,
} from './upkeep.js';

/**
 * Reads every byte there is, at a bounded rate, and holds it against its CRC-32:
 * local copies first, then every living slice of every trunk. A damaged copy is
 * put out of use where another one is sound; a file without any sound copy is
 * reported, and reading it is an error, never wrong bytes.
 */
export interface ScrubOptions extends UpkeepOptions {
  readonly bytesPerSecond: number;
}

export interface ScrubReport {
  readonly localFiles: number;
  readonly localBytes: number;
  readonly slices: number;
  readonly sliceBytes: number;
  readonly damaged: readonly Damage[];
}

export interface Damage {
  readonly key: string;
  readonly where: 'container' | 'spool' | 'trunk';
  readonly detail: string;
  /** True when a sound copy is what is read from now on. */
  readonly repaired: boolean;
}

/** One ranged read of a trunk covers neighbours up to this many bytes. */
const EXTENT_BYTES = 2 ** 20;

export async function scrub(parts: UpkeepParts, options: ScrubOptions): Promise<ScrubReport> {
  const run = new Scrub(parts, options);
  await run.checkLocal();
  await run.checkTrunks();
  return run.report();
}

class Scrub {
  readonly #parts: UpkeepParts;
  readonly #options: ScrubOptions;
  readonly #allBytes: number;
  readonly #damaged: Damage[] = [];
  #localFiles = 0;
  #localBytes = 0;
  #slices = 0;
  #sliceBytes = 0;

  constructor(parts: UpkeepParts, options: ScrubOptions) {
    this.#parts = parts;
    this.#options = options;
    const { waitingBytes, spooledBytes, mergedBytes } = parts.fileMap.counters();
    this.#allBytes = waitingBytes + spooledBytes + mergedBytes;
  }

  report(): ScrubReport {
    return {
      localFiles: this.#localFiles,
      localBytes: this.#localBytes,
      slices: this.#slices,
      sliceBytes: this.#sliceBytes,
      damaged: this.#damaged,
    };
  }

  async checkLocal(): Promise<void> {
    for await (const row of allFiles(this.#parts.fileMap)) {
      const where = row.spooled > 0 ? 'spool' : 'container';
      const sound = await (row.spooled > 0 ? this.#isSpoolSound(row) : this.#isSegmentSound(row));
      if (sound === undefined) continue;
      this.#localFiles += 1;
      this.#localBytes += row.size;
      if (!sound) await this.#localDamage(row, where);
      await this.#pace(row.size, row.trunk === null);
    }
  }

  async checkTrunks(): Promise<void> {
    for (const trunk of this.#parts.fileMap.trunksIn('confirmed')) {
      for (let offset = -1; ; ) {
        const rows = this.#parts.fileMap.aliveIn(trunk.id, offset, ROWS_PER_PAGE);
        for (const extent of extents(rows)) await this.#checkExtent(trunk, extent);
        if (rows.length < ROWS_PER_PAGE) break;
        offset = rows.at(-1)!.trunkOffset!;
      }
    }
  }

  async #checkExtent(trunk: TrunkRow, rows: readonly FileRow[]): Promise<void> {
    const start = rows[0]!.trunkOffset!;
    const last = rows.at(-1)!;
    const length = last.trunkOffset! + last.size - start;
    const { signal } = this.#options;
    const bytes = await readTrunk(this.#parts.trunkStore, trunk, start, length, signal);
    for (const row of rows) {
      this.#slices += 1;
      this.#sliceBytes += row.size;
      const from = row.trunkOffset! - start;
      const slice = bytes?.subarray(from, from + row.size);
      if (slice?.length === row.size && crc32(slice) === row.crc32) continue;
      await this.#trunkDamage(trunk, row, bytes === undefined);
    }
    await this.#pace(length, true);
  }

  async #localDamage(row: FileRow, where: 'container' | 'spool'): Promise<void> {
    const elsewhere = row.trunk !== null;
    const repaired = elsewhere && this.#options.repair;
    if (repaired && where === 'container') this.#parts.fileMap.forgetLocal(row.key);
    if (repaired && where === 'spool') {
      await this.#parts.spool.remove(row.key);
      this.#parts.fileMap.forgetSpooled(row.key);
    }
    const detail = elsewhere
      ? `the copy on this disk is damaged; FastDFS has the file as ${row.trunkFileId}`
      : 'the only copy is damaged';
    this.#damaged.push({ key: formatKey(row.key), where, detail, repaired });
  }

  async #trunkDamage(trunk: TrunkRow, row: FileRow, gone: boolean): Promise<void> {
    const current = this.#parts.fileMap.find(row.key);
    // Deleted or moved since its place was looked up.
    if (current?.trunk !== trunk.id) return;
    const local = row.spooled > 0 ? undefined : await this.#segmentBytes(row);
    const repaired = local !== undefined && this.#options.repair;
    if (repaired) await stageAgain(this.#parts, current, local);
    const what = gone ? `${trunk.fileId} is gone` : `its bytes in ${trunk.fileId} are damaged`;
    const detail = local ? `${what}; this disk has a sound copy` : what;
    this.#damaged.push({ key: formatKey(row.key), where: 'trunk', detail, repaired });
  }

  /** Undefined when there is no local copy. */
  async #isSegmentSound(row: FileRow): Promise<boolean | undefined> {
    if (!this.#parts.container.segment(row.segment)) return undefined;
    return (await this.#segmentBytes(row)) !== undefined;
  }

  async #segmentBytes(row: FileRow): Promise<Buffer | undefined> {
    const bytes = await this.#parts.container.segment(row.segment)?.read(row.position, row.size);
    return bytes?.length === row.size && crc32(bytes) === row.crc32 ? bytes : undefined;
  }

  async #isSpoolSound(row: FileRow): Promise<boolean | undefined> {
    if (!this.#parts.spool.has(row.key)) return undefined;
    try {
      for await (const _chunk of this.#parts.spool.read(row.key, row)) {
        if (this.#options.signal?.aborted) throw stopped();
      }
      return true;
    } catch (error) {
      if (this.#options.signal?.aborted) throw error;
      return false;
    }
  }

  /** Tells the progress and waits as long as the rate asks. */
  async #pace(bytes: number, counts: boolean): Promise<void> {
    const { signal, bytesPerSecond, onProgress } = this.#options;
    if (signal?.aborted) throw stopped();
    if (counts)
      onProgress?.(Math.min(this.#sliceBytes + this.#localBytes, this.#allBytes), this.#allBytes);
    const ms = (bytes / bytesPerSecond) * 1000;
    if (ms >= 1) await sleep(ms, undefined, signal ? { signal } : {}).catch(() => undefined);
  }
}

/** Runs of neighbours that one read covers; `rows` in the order of the trunk. */
function extents(rows: readonly FileRow[]): FileRow[][] {
  const found: FileRow[][] = [];
  for (const row of rows) {
    const last = found.at(-1);
    const start = last?.[0]?.trunkOffset ?? 0;
    if (last && row.trunkOffset! + row.size - start <= EXTENT_BYTES) last.push(row);
    else found.push([row]);
  }
  return found;
}
