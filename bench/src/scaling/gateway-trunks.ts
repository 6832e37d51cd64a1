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

export type Outcome = Awaited<ReturnType<typeof simulateGateway>>;

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
export async function simulateGateway(site: Site, observer: Observer = {}) {
  const { filesPerSecond, trunkBytes, maxAgeMs, idMaxAgeMs, seed } = site;
  const source = new FileSource(site);
  const clock = new SeededRandom(seed ^ 0x5ca1ab1e);
  const packing = seededRandom(seed);
  const full = { bytes: trunkBytes, files: MAX_FILES };
  let now = BEGIN_MS;
  let waiting: FileRow[] = [];
  let [waitingBytes, stagedSince, wantedBytes, wakeAt] = [0, 0, 0, Infinity];
  /** How often a file in FastDFS has been written, by its key, if that is more than once. */
  const levels = new WeakMap<Buffer, number>();
  let thin: ThinTrunk[] = [];
  /** How full trunks are that stay, in bytes or in files. */
  const fills: number[] = [];
  /** Trunks stored in FastDFS, joined ones too, and what was written with them. */
  const sums = { files: 0, bytes: 0, stored: 0, storedFiles: 0, storedBytes: 0 };
  const stays = { staying: 0, stayingFiles: 0, stayingBytes: 0 };
  const waitingShare = () => shareOf({ bytes: waitingBytes, files: waiting.length }, full);

  const stage = (): void => {
    const row = source.next(now);
    waiting.push(row);
    waitingBytes += row.size;
    stagedSince += row.size;
    sums.files += 1;
    sums.bytes += row.size;
    observer.staged?.(row);
  };

  const newTask = (): Buffer => {
    const task = Buffer.alloc(16);
    task.writeUIntBE(Math.floor(now), 0, 6);
    task.writeUInt16BE(site.origin, 6);
    task.writeUInt32BE(sums.stored, 12);
    return task;
  };

  /** FastDFS has it at once. */
  const store = (plan: TrunkPlan, share: number): void => {
    const { rows, size } = plan;
    const chosen = new Set(rows);
    waiting = waiting.filter((row) => !chosen.has(row));
    waitingBytes -= rows.reduce((sum, row) => sum + row.size, 0);
    sums.stored += 1;
    const id = sums.stored;
    const fileId = trunkFileId(id, size, id);
    sums.storedFiles += rows.length;
    sums.storedBytes += size;
    observer.stored?.(plan, fileId);
    const own = shareOf({ bytes: size, files: rows.length }, full);
    const oldestAt = rows.reduce((oldest, row) => Math.min(oldest, row.stagedAt), Infinity);
    if (isThin(own, share) && now - oldestAt < idMaxAgeMs) {
      const level = 1 + rows.reduce((most, { key }) => Math.max(most, levels.get(key) ?? 0), 0);
      thin.push({ id, rows, fileId, plan, share: own, level, oldestAt });
      return;
    }
    stays.staying += 1;
    stays.stayingFiles += rows.length;
    stays.stayingBytes += size;
    fills.push(own);
  };

  /** Files of joined trunks wait again, behind all others. */
  const join = (): void => {
    if (idMaxAgeMs === 0) return;
    const all = thin.map((trunk) => ({ ...trunk, isOverdue: now - trunk.oldestAt >= idMaxAgeMs }));
    const joined = new Set(chooseJoin(all, waitingShare()).map(({ id }) => id));
    if (joined.size === 0) return;
    const moved = thin.filter(({ id }) => joined.has(id));
    thin = thin.filter(({ id }) => !joined.has(id));
    for (const { rows, plan, fileId, level } of moved.sort((a, b) => a.oldestAt - b.oldestAt)) {
      for (const [at, row] of rows.entries()) {
        levels.set(row.key, level);
        waiting.push({ ...row, was: [[fileId, plan.members[at]!.offset]] });
        waitingBytes += row.size;
      }
    }
  };

  const merge = async (mayWait: boolean): Promise<void> => {
    const capacityBytes = trunkBytes - TRUNK_END_BYTES;
    const limits = { capacityBytes, maxFiles: MAX_FILES };
    const share = waitingShare();
    const window = candidateWindow(capacityBytes, now);
    for (const row of waiting) if (!window.take(row)) break;
    const pause = () => Promise.resolve();
    const units = await inSteps(unitsInSteps(window.rows, { ...limits, now, maxAgeMs }), pause);
    const choice = unitsToChooseFrom(units, limits, mayWait) ?? units;
    const { rows, bytes } = await chooseMembers(choice, limits, packing, pause);
    if (rows.length === 0) throw new Error('no file fits into a trunk');
    store(planTrunk(newTask(), rows, 'merged', bytes), share);
    join();
  };

  const decide = async (): Promise<void> => {
    for (;;) {
      stagedSince = 0;
      wantedBytes = Math.max(0, CANDIDATE_FACTOR * trunkBytes - waitingBytes);
      const decision = decideMerge({
        ...{ now, waitingBytes, waitingFiles: waiting.length, maxAgeMs, short: false },
        ...{ targetBytes: trunkBytes, maxFiles: MAX_FILES },
        oldestStagedAt: waiting[0]?.stagedAt,
      });
      if (decision.action === 'wait') {
        // With nothing to merge, the next file wakes the task.
        wakeAt = waiting.length === 0 ? Infinity : now + decision.waitMs;
        return;
      }
      await merge(decision.reason === 'full');
    }
  };

  const meanMs = 1000 / filesPerSecond;
  let nextAt = BEGIN_MS;
  for (let come = 0; come < site.files; ) {
    if (wakeAt < nextAt) {
      now = wakeAt;
      await decide();
      continue;
    }
    now = nextAt;
    stage();
    come += 1;
    nextAt += site.isRandom ? clock.exponential(meanMs) : meanMs;
    if (wakeAt === Infinity || stagedSince >= wantedBytes) await decide();
  }
  if (site.flushes) while (waiting.length > 0) await merge(false);
  const rest = { thin: thin.length, waitingFiles: waiting.length, waitingBytes };
  return { ...sums, ...stays, fills, ...rest, seconds: (nextAt - BEGIN_MS) / 1000 };
}
