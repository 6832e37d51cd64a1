import type { FileRow } from '@stevedore/staging';
import {
  chooseMembers,
  inSteps,
  seededRandom,
  unitsInSteps,
  unitsToChooseFrom,
} from '../../../packages/staging/dist/merge/candidates.js';
import { chooseJoin, isThin, shareOf } from '../../../packages/staging/dist/merge/joining.js';
import { CANDIDATE_FACTOR, decideMerge } from '../../../packages/staging/dist/merge/schedule.js';
import {
  planTrunk,
  TRUNK_END_BYTES,
  type TrunkPlan,
} from '../../../packages/staging/dist/merge/trunk-plan.js';
import { candidateWindow, MAX_FILES } from '../../../packages/staging/dist/merge/waiting-files.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { trunkFileId } from '../staging/trunk-stores.js';
import { FileSource } from './files.js';

/**
 * The trunks that one gateway makes of the files that come to it. Every decision is the product's:
 * when to merge, which files are looked at, which of them fill a trunk, what is thin and which thin
 * trunks are joined. What is ours is the clock, and that sending and moving take no time.
 */

export interface Site {
  readonly origin: number;
  readonly filesPerSecond: number;
  /** False: the same time between any two files. */
  readonly isRandom: boolean;
  /** So many files, then it is over. */
  readonly files: number;
  readonly meanBytes: number;
  readonly trunkBytes: number;
  readonly maxAgeMs: number;
  readonly idMaxAgeMs: number;
  /** All that waits at the end is merged. */
  readonly flushes: boolean;
  readonly seed: number;
}

export interface Observer {
  staged?(row: FileRow): void;
  stored?(plan: TrunkPlan, fileId: string): void;
}

export interface Outcome {
  readonly files: number;
  readonly bytes: number;
  readonly seconds: number;
  /** Stored in FastDFS, joined ones too, and what was written with them. */
  readonly stored: number;
  readonly storedFiles: number;
  readonly storedBytes: number;
  /** Trunks that stay, how full they are in bytes or in files, and their bytes. */
  readonly staying: number;
  readonly stayingFiles: number;
  readonly fills: readonly number[];
  readonly stayingBytes: number;
  /** Thin trunks at the end, and what is in none. */
  readonly thin: number;
  readonly waitingFiles: number;
  readonly waitingBytes: number;
}

/** What `candidateWindow` gets of the product; see `WaitingFiles.candidates`. */
const BEGIN_MS = Date.UTC(2026, 0, 5);

interface ThinTrunk {
  readonly id: number;
  readonly rows: readonly FileRow[];
  readonly fileId: string;
  readonly plan: TrunkPlan;
  readonly share: number;
  readonly level: number;
  readonly oldestAt: number;
}

/** The same site gives the same trunks. */
export async function simulateGateway(site: Site, observer: Observer = {}): Promise<Outcome> {
  return new GatewayRun(site, observer).run();
}

class GatewayRun {
  readonly #site: Site;
  readonly #observer: Observer;
  readonly #source: FileSource;
  readonly #clock: SeededRandom;
  readonly #packing: () => number;
  readonly #full: { readonly bytes: number; readonly files: number };
  #now = BEGIN_MS;
  #waiting: FileRow[] = [];
  #waitingBytes = 0;
  #stagedSince = 0;
  #wantedBytes = 0;
  #wakeAt = Number.POSITIVE_INFINITY;
  /** How often a file in FastDFS has been written, by its key, if that is more than once. */
  readonly #levels = new WeakMap<Buffer, number>();
  #thin: ThinTrunk[] = [];
  readonly #fills: number[] = [];
  #sums = { files: 0, bytes: 0, stored: 0, storedFiles: 0, storedBytes: 0 };
  #stays = { trunks: 0, files: 0, bytes: 0 };

  constructor(site: Site, observer: Observer) {
    this.#site = site;
    this.#observer = observer;
    this.#source = new FileSource(site);
    this.#clock = new SeededRandom(site.seed ^ 0x5ca1ab1e);
    this.#packing = seededRandom(site.seed);
    this.#full = { bytes: site.trunkBytes, files: MAX_FILES };
  }

  async run(): Promise<Outcome> {
    const { files, filesPerSecond, isRandom, flushes } = this.#site;
    const meanMs = 1000 / filesPerSecond;
    let nextAt = BEGIN_MS;
    for (let come = 0; come < files; ) {
      if (this.#wakeAt < nextAt) {
        this.#now = this.#wakeAt;
        await this.#decide();
        continue;
      }
      this.#now = nextAt;
      this.#stage();
      come += 1;
      nextAt += isRandom ? this.#clock.exponential(meanMs) : meanMs;
      if (this.#wakeAt === Number.POSITIVE_INFINITY || this.#stagedSince >= this.#wantedBytes) {
        await this.#decide();
      }
    }
    if (flushes) while (this.#waiting.length > 0) await this.#merge(false);
    const { trunks: staying, files: stayingFiles, bytes: stayingBytes } = this.#stays;
    return {
      ...this.#sums,
      seconds: (nextAt - BEGIN_MS) / 1000,
      ...{ staying, stayingFiles, stayingBytes, fills: this.#fills, thin: this.#thin.length },
      ...{ waitingFiles: this.#waiting.length, waitingBytes: this.#waitingBytes },
    };
  }

  #stage(): void {
    const row = this.#source.next(this.#now);
    this.#waiting.push(row);
    this.#waitingBytes += row.size;
    this.#stagedSince += row.size;
    this.#sums.files += 1;
    this.#sums.bytes += row.size;
    this.#observer.staged?.(row);
  }

  async #decide(): Promise<void> {
    const { trunkBytes, maxAgeMs } = this.#site;
    for (;;) {
      this.#stagedSince = 0;
      this.#wantedBytes = Math.max(0, CANDIDATE_FACTOR * trunkBytes - this.#waitingBytes);
      const decision = decideMerge({
        now: this.#now,
        waitingBytes: this.#waitingBytes,
        waitingFiles: this.#waiting.length,
        oldestStagedAt: this.#waiting[0]?.stagedAt,
        targetBytes: trunkBytes,
        maxFiles: MAX_FILES,
        maxAgeMs,
        short: false,
      });
      if (decision.action === 'wait') {
        // With nothing to merge, the next file wakes the task.
        const isIdle = this.#waiting.length === 0;
        this.#wakeAt = isIdle ? Number.POSITIVE_INFINITY : this.#now + decision.waitMs;
        return;
      }
      await this.#merge(decision.reason === 'full');
    }
  }

  async #merge(mayWait: boolean): Promise<void> {
    const { trunkBytes, maxAgeMs } = this.#site;
    const capacityBytes = trunkBytes - TRUNK_END_BYTES;
    const limits = { capacityBytes, maxFiles: MAX_FILES };
    const waiting = { bytes: this.#waitingBytes, files: this.#waiting.length };
    const window = candidateWindow(capacityBytes, this.#now);
    for (const row of this.#waiting) if (!window.take(row)) break;
    const pause = () => Promise.resolve();
    const unitLimits = { ...limits, now: this.#now, maxAgeMs };
    const units = await inSteps(unitsInSteps(window.rows, unitLimits), pause);
    const choice = unitsToChooseFrom(units, limits, mayWait) ?? units;
    const { rows, bytes } = await chooseMembers(choice, limits, this.#packing, pause);
    if (rows.length === 0) throw new Error('no file fits into a trunk');
    this.#store(planTrunk(this.#newTask(), rows, 'merged', bytes), shareOf(waiting, this.#full));
    this.#join();
  }

  /** FastDFS has it at once. */
  #store(plan: TrunkPlan, waitingShare: number): void {
    const { rows, size } = plan;
    const chosen = new Set(rows);
    this.#waiting = this.#waiting.filter((row) => !chosen.has(row));
    this.#waitingBytes -= rows.reduce((sum, row) => sum + row.size, 0);
    this.#sums.stored += 1;
    const id = this.#sums.stored;
    const fileId = trunkFileId(id, size, id);
    this.#sums.storedFiles += rows.length;
    this.#sums.storedBytes += size;
    this.#observer.stored?.(plan, fileId);
    const share = shareOf({ bytes: size, files: rows.length }, this.#full);
    const oldestAt = rows.reduce((oldest, row) => Math.min(oldest, row.stagedAt), Infinity);
    const isOld = this.#now - oldestAt >= this.#site.idMaxAgeMs;
    if (isThin(share, waitingShare) && !isOld) {
      const level = 1 + rows.reduce((most, row) => Math.max(most, this.#levelOf(row)), 0);
      this.#thin.push({ id, rows, fileId, plan, share, level, oldestAt });
      return;
    }
    this.#stays.trunks += 1;
    this.#stays.files += rows.length;
    this.#stays.bytes += size;
    this.#fills.push(share);
  }

  #levelOf({ key }: FileRow): number {
    return this.#levels.get(key) ?? 0;
  }

  /** Files of joined trunks wait again, behind all others. */
  #join(): void {
    if (this.#site.idMaxAgeMs === 0) return;
    const thin = this.#thin.map((trunk) => ({
      ...trunk,
      isOverdue: this.#now - trunk.oldestAt >= this.#site.idMaxAgeMs,
    }));
    const waiting = { bytes: this.#waitingBytes, files: this.#waiting.length };
    const joined = new Set(chooseJoin(thin, shareOf(waiting, this.#full)).map(({ id }) => id));
    if (joined.size === 0) return;
    const moved = this.#thin.filter(({ id }) => joined.has(id));
    this.#thin = this.#thin.filter(({ id }) => !joined.has(id));
    for (const { rows, plan, fileId, level } of moved.sort((a, b) => a.oldestAt - b.oldestAt)) {
      for (const [at, row] of rows.entries()) {
        this.#levels.set(row.key, level);
        this.#waiting.push({ ...row, was: [[fileId, plan.members[at]!.offset]] });
        this.#waitingBytes += row.size;
      }
    }
  }

  #newTask(): Buffer {
    const task = Buffer.alloc(16);
    task.writeUIntBE(Math.floor(this.#now), 0, 6);
    task.writeUInt16BE(this.#site.origin, 6);
    task.writeUInt32BE(this.#sums.stored, 12);
    return task;
  }
}
