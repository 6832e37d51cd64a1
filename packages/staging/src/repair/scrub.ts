import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { hasCode } from '@stevedore/disk';
import { BackgroundTask } from '../changes.js';
import { type FileRow, localDamage, type MergedRow, type TrunkRow } from '../filemap/filemap.js';
import { formatKey } from '../key.js';
import type { State } from '../state.js';
import type { Repairs } from './repair.js';
import {
  aliveIn,
  allFiles,
  isSoundAt,
  learnBlocks,
  ROWS_PER_PAGE,
  readTrunk,
  soundBytes,
  stopped,
  type UpkeepOptions,
} from './sound-bytes.js';

/**
 * Reads every byte at a bounded rate and checks it against its CRC-32: local copies first, then
 * every living slice of every trunk, at each storage that has it. A damaged copy is quarantined and
 * repaired from a sound one; a quarantined copy that is sound again is released. A file without
 * any sound copy is reported, and reading it is an error, never wrong bytes.
 */
export interface ScrubOptions extends UpkeepOptions {
  readonly bytesPerSecond: number;
  /** Resumes where an earlier walk stopped, and records its progress. */
  readonly goesOn?: boolean;
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
  /** `host:port` of the storage, for a trunk. */
  readonly storage?: string;
  readonly detail: string;
  /** True if a sound copy is read from now on. */
  readonly repaired: boolean;
}

/** One ranged read of a trunk covers adjacent files up to this many bytes. */
const EXTENT_BYTES = 2 ** 20;
const COPIES_TIMEOUT_MS = 30_000;
/** Name of the progress mark in the FileMap. */
const PLACE = 'scrub';

export async function scrub(
  state: State,
  repairs: Repairs,
  options: ScrubOptions,
): Promise<ScrubReport> {
  const run = new Scrub(state, repairs, options);
  await run.checkLocal();
  await run.checkTrunks();
  return run.report();
}

/** Progress of a walk: the last key on this disk, or the last trunk. */
interface Place {
  readonly key?: string;
  readonly trunk?: number;
}

class Scrub {
  readonly #state: State;
  readonly #repairs: Repairs;
  readonly #options: ScrubOptions;
  readonly #allBytes: number;
  readonly #begin: Place;
  readonly #damaged: Damage[] = [];
  readonly #sums = { localFiles: 0, localBytes: 0, slices: 0, sliceBytes: 0 };
  #owedMs = 0;

  constructor(state: State, repairs: Repairs, options: ScrubOptions) {
    this.#state = state;
    this.#repairs = repairs;
    this.#options = options;
    const { waitingBytes, spooledBytes, mergedBytes } = state.fileMap.counters();
    this.#allBytes = waitingBytes + spooledBytes + mergedBytes;
    const mark = options.goesOn ? state.fileMap.mark(PLACE) : undefined;
    this.#begin = mark === undefined ? {} : (JSON.parse(mark) as Place);
  }

  report(): ScrubReport {
    this.#note({});
    return { ...this.#sums, damaged: this.#damaged };
  }

  async checkLocal(): Promise<void> {
    if (this.#begin.trunk !== undefined) return;
    const from = Buffer.from(this.#begin.key ?? '', 'base64url');
    let count = 0;
    for await (const row of allFiles(this.#state.fileMap, from)) {
      count += 1;
      if (count % ROWS_PER_PAGE === 0) this.#note({ key: formatKey(row.key) });
      const where = localDamage(row);
      const sound = await (where === 'spool' ? this.#isSpoolSound(row) : this.#isSegmentSound(row));
      if (sound === undefined) continue;
      this.#sums.localFiles += 1;
      this.#sums.localBytes += row.size;
      if (sound === true) this.#state.quarantine.lift(row.key, where);
      else await this.#localDamage(row, where, sound === 'unreadable');
      // A large file was paced while it was read.
      await this.#pace(where === 'spool' ? 0 : row.size, !row.trunk);
    }
  }

  async checkTrunks(): Promise<void> {
    const after = this.#begin.trunk ?? -1;
    for (const trunk of this.#state.fileMap.trunksIn('confirmed')) {
      if (trunk.id <= after) continue;
      const holders = await this.#holders(trunk);
      for (const [index, holder] of holders.entries()) {
        await this.#checkTrunk(trunk, holder, index === 0);
      }
      this.#note({ trunk: trunk.id });
    }
  }

  /** The storages that have the trunk; undefined means any that answers. */
  async #holders(trunk: TrunkRow): Promise<readonly (string | undefined)[]> {
    const { signal } = this.#options;
    const timeout = AbortSignal.timeout(COPIES_TIMEOUT_MS);
    const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
    const { holders } = await this.#state.trunkStore.replicas(trunk.fileId, either);
    return holders.length > 0 ? holders : [undefined];
  }

  async #checkTrunk(trunk: TrunkRow, holder: string | undefined, counts: boolean): Promise<void> {
    for (const extent of extents(aliveIn(this.#state.fileMap, trunk))) {
      const [first] = extent;
      if (!first || first.size <= EXTENT_BYTES) {
        await this.#checkExtent(trunk, extent, holder, counts);
        continue;
      }
      const pace = (bytes: number) => this.#pace(bytes, false);
      const isSound = await isSoundAt(this.#state, first, holder, this.#options.signal, pace);
      if (counts) this.#count(first);
      if (isSound) this.#state.quarantine.lift(first.key, 'trunk', holder);
      else await this.#trunkDamage(trunk, first, holder, false);
      await this.#pace(0, counts);
    }
  }

  async #checkExtent(
    trunk: TrunkRow,
    rows: readonly MergedRow[],
    holder: string | undefined,
    counts: boolean,
  ): Promise<void> {
    const [first, last] = [rows[0], rows.at(-1)];
    if (!first || !last) return;
    const start = first.trunk.offset;
    const length = last.trunk.offset + last.size - start;
    const { signal } = this.#options;
    const { trunkStore, quarantine } = this.#state;
    const bytes =
      length === 0
        ? Buffer.alloc(0)
        : await readTrunk(trunkStore, trunk, start, length, signal, holder);
    for (const row of rows) {
      if (counts) this.#count(row);
      const from = row.trunk.offset - start;
      const slice = bytes?.subarray(from, from + row.size);
      const isSound = slice?.length === row.size && crc32(slice) === row.crc32;
      if (isSound) quarantine.lift(row.key, 'trunk', holder);
      else await this.#trunkDamage(trunk, row, holder, bytes === undefined);
    }
    await this.#pace(length, counts);
  }

  #count(row: FileRow): void {
    this.#sums.slices += 1;
    this.#sums.sliceBytes += row.size;
  }

  async #localDamage(
    row: FileRow,
    where: 'container' | 'spool',
    unreadable: boolean,
  ): Promise<void> {
    const { quarantine } = this.#state;
    const { repair, signal } = this.#options;
    // The disk may recover from a failure as a whole, so that does not quarantine the copy.
    if (!unreadable) quarantine.add(row, where);
    // A waiting file may be sound where it was moved from.
    const isRepairable = repair && !unreadable;
    const repaired = isRepairable && (await this.#repairs.repairFile(row.key, signal));
    const what = unreadable ? 'cannot be read at present' : 'is damaged';
    const detail = row.trunk
      ? `the copy on this disk ${what}; FastDFS has the file as ${row.trunk.fileId}`
      : `the only copy on this disk ${what}`;
    this.#damaged.push({ key: formatKey(row.key), where, detail, repaired });
  }

  async #trunkDamage(
    trunk: TrunkRow,
    row: FileRow,
    holder: string | undefined,
    gone: boolean,
  ): Promise<void> {
    const { fileMap, quarantine } = this.#state;
    const { repair, signal } = this.#options;
    // The file was deleted or moved since it was looked up.
    if (fileMap.find(row.key)?.trunk?.id !== trunk.id) return;
    quarantine.add(row, 'trunk', holder);
    const repaired = repair && (await this.#repairs.repairFile(row.key, signal));
    const where = holder === undefined ? '' : ` at ${holder}`;
    const what = gone ? 'is gone' : 'has damaged bytes of it';
    const detail = `${trunk.fileId} ${what}${where}`;
    const damage = { key: formatKey(row.key), where: 'trunk' as const, detail, repaired };
    this.#damaged.push(holder === undefined ? damage : { ...damage, storage: holder });
  }

  /** Undefined if there is no local copy. */
  async #isSegmentSound(row: FileRow): Promise<boolean | 'unreadable' | undefined> {
    const { container } = this.#state;
    if (!container.segment(row.local.segment)) return undefined;
    try {
      return (await soundBytes(container, row)) !== undefined;
    } catch {
      return 'unreadable';
    }
  }

  async #isSpoolSound(row: FileRow): Promise<boolean | 'unreadable' | undefined> {
    const { spool, fileMap } = this.#state;
    if (row.local.at !== 'spool' || !spool.has(row.key)) return undefined;
    const { signal } = this.#options;
    try {
      const list = await spool.checksums(row.key, row, (bytes) => this.#pace(bytes, false));
      if (list) learnBlocks(fileMap, row, list);
      return list !== undefined;
    } catch (error) {
      if (signal?.aborted) throw error;
      return hasCode(error, 'ENOENT') ? false : 'unreadable';
    }
  }

  #note(place: Place): void {
    if (this.#options.goesOn) this.#state.fileMap.setMark(PLACE, JSON.stringify(place));
  }

  /** Reports progress and waits as the rate requires. */
  async #pace(bytes: number, counts: boolean): Promise<void> {
    const { signal, bytesPerSecond, onProgress } = this.#options;
    if (signal?.aborted) throw stopped();
    const { sliceBytes, localBytes } = this.#sums;
    if (counts) onProgress?.(Math.min(sliceBytes + localBytes, this.#allBytes), this.#allBytes);
    // Accumulate pauses that are too short to take.
    this.#owedMs += (bytes / bytesPerSecond) * 1000;
    if (this.#owedMs < 5) return;
    const ms = this.#owedMs;
    this.#owedMs = 0;
    await sleep(ms, undefined, { signal }).catch(() => undefined);
    if (signal?.aborted) throw stopped();
  }
}

/** Groups adjacent files that one read covers; `rows` in trunk order. */
function* extents(rows: Iterable<MergedRow>): Generator<readonly MergedRow[]> {
  let extent: MergedRow[] = [];
  for (const row of rows) {
    const start = extent[0]?.trunk.offset ?? 0;
    const isFull = row.trunk.offset + row.size - start > EXTENT_BYTES;
    if (isFull && extent.length > 0) {
      yield extent;
      extent = [];
    }
    extent.push(row);
  }
  if (extent.length > 0) yield extent;
}

/**
 * Scrubs in the background while the store is open: at most one walk a day, at a low rate. A walk
 * continues where the last process stopped, or where FastDFS stopped answering.
 */

/** Pause before the first walk, and after one that failed. */
const PAUSE_MS = 60_000;
/** Time from the end of one walk to the start of the next. */
const INTERVAL_MS = 86_400_000;

export interface ScrubStats {
  /** Walks completed since the start. */
  readonly walks: number;
  /** Files and bytes that they read, on this disk and in FastDFS. */
  readonly files: number;
  readonly bytes: number;
}

export class ScrubWatch extends BackgroundTask {
  readonly #state: State;
  readonly #repairs: Repairs;
  #stats: ScrubStats = { walks: 0, files: 0, bytes: 0 };

  constructor(state: State, repairs: Repairs) {
    super(state.changes);
    this.#state = state;
    this.#repairs = repairs;
  }

  start(): void {
    const { scrubRate = 0 } = this.#state.options;
    if (scrubRate > 0) void this.runOnce(() => this.#run(scrubRate));
  }

  stats(): ScrubStats {
    return this.#stats;
  }

  async #run(bytesPerSecond: number): Promise<void> {
    const { scrubPauseMs: pauseMs = PAUSE_MS } = this.#state.options;
    const signal = this.stopped;
    let waitMs = pauseMs;
    while (!signal.aborted) {
      await this.pause(waitMs);
      if (signal.aborted) return;
      try {
        const report = await scrub(this.#state, this.#repairs, {
          repair: true,
          bytesPerSecond,
          signal,
          goesOn: true,
        });
        const { walks, files, bytes } = this.#stats;
        this.#stats = {
          walks: walks + 1,
          files: files + report.localFiles + report.slices,
          bytes: bytes + report.localBytes + report.sliceBytes,
        };
        waitMs = INTERVAL_MS;
      } catch {
        // FastDFS is unreachable or the store is closing; damage does not throw.
        waitMs = pauseMs;
      }
    }
  }
}
