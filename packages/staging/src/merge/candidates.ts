import type { FileRow } from '../filemap/filemap.js';
import { anneal, type PackingUnit } from './annealing.js';
import { bytesInTrunk } from './trunk-plan.js';

/**
 * From waiting files to the members of a trunk. Pure. The units of choice are affinity groups, kept
 * together and in order of arrival, and single files. Of a group larger than a trunk, the first
 * part comes, as much as fills one; what follows waits for the next trunk.
 */

export interface CandidateUnit extends PackingUnit {
  readonly rows: readonly FileRow[];
  /** A file of its group came a moment ago: more may follow. */
  readonly isOpen: boolean;
  /** The rest of its group waits for the next trunk. */
  readonly isCut: boolean;
}

/** A group is whole when nothing has come for so long. */
const GROUP_PAUSE_MS = 2_000;

export interface UnitLimits {
  readonly capacityBytes: number;
  readonly maxFiles: number;
  readonly now: number;
  readonly maxAgeMs: number;
}

/** Leaving a file behind that is past its age costs more than any fill can win. */
const OVERDUE_PENALTY_BYTES = 2 ** 20;
const AGING_PENALTY_BYTES = 2 ** 16;

const ROWS_PER_STEP = 1_000;

/**
 * `rows` in order of arrival; the units come in the order of their first file. Made in steps,
 * between which others have their turn.
 */
export function* unitsInSteps(
  rows: readonly FileRow[],
  limits: UnitLimits,
): Generator<void, CandidateUnit[], undefined> {
  const { capacityBytes, maxFiles, now, maxAgeMs } = limits;
  const units: Unit[] = [];
  const groups = new Map<string, Unit>();
  for (const [index, row] of rows.entries()) {
    if (index % ROWS_PER_STEP === ROWS_PER_STEP - 1) yield;
    const bytes = bytesInTrunk(row);
    const group = row.group === undefined ? undefined : groups.get(row.group);
    if (group) {
      group.isCut ||= group.bytes + bytes > capacityBytes || group.files === maxFiles;
      if (group.isCut) continue;
      group.rows.push(row);
      group.bytes += bytes;
      group.files += 1;
      group.isOpen ||= isFresh(row, now);
      continue;
    }
    const penalty = agePenalty(now - row.stagedAt, maxAgeMs);
    const isOpen = row.group !== undefined && isFresh(row, now);
    const unit = { rows: [row], bytes, files: 1, penalty, isOpen, isCut: false };
    units.push(unit);
    if (row.group !== undefined) groups.set(row.group, unit);
  }
  for (const unit of groups.values()) if (unit.rows.some(wasMoved)) inOrder(unit.rows);
  return units;
}

interface Unit {
  readonly rows: FileRow[];
  bytes: number;
  files: number;
  readonly penalty: number;
  isOpen: boolean;
  isCut: boolean;
}

function isFresh({ stagedAt }: FileRow, now: number): boolean {
  return stagedAt > now - GROUP_PAUSE_MS && stagedAt <= now;
}

function wasMoved({ was }: FileRow): boolean {
  return was.length > 0;
}

/** Files that were moved here from trunks stand behind those that came meanwhile. */
function inOrder(rows: FileRow[]): void {
  rows.sort((a, b) => a.stagedAt - b.stagedAt);
}

/**
 * Those to choose from: whole groups, as long as they and single files fill a trunk. Undefined
 * where it is better to wait: groups of which more may follow are needed to fill one.
 */
export function wholeUnits(
  units: readonly CandidateUnit[],
  { capacityBytes, maxFiles }: Pick<UnitLimits, 'capacityBytes' | 'maxFiles'>,
): readonly CandidateUnit[] | undefined {
  const whole = units.filter(({ isOpen, isCut }) => !isOpen || isCut);
  const bytes = whole.reduce((sum, unit) => sum + unit.bytes, 0);
  const files = whole.reduce((sum, unit) => sum + unit.files, 0);
  return bytes >= capacityBytes || files >= maxFiles ? whole : undefined;
}

export interface Members {
  readonly rows: readonly FileRow[];
  /** What they add to the trunk. */
  readonly bytes: number;
}

/**
 * Rows of one trunk, groups contiguous, in the order of arrival of their first file. `pause`
 * lets others have their turn.
 */
export async function chooseMembers(
  units: readonly CandidateUnit[],
  limits: { readonly capacityBytes: number; readonly maxFiles: number },
  random: () => number,
  pause: () => Promise<void>,
): Promise<Members> {
  const { chosen, bytes } = await inSteps(anneal(units, limits, { random }), pause);
  return { rows: chosen.flatMap((index) => units[index]!.rows), bytes };
}

/** Drives it to its end. */
export async function inSteps<Result>(
  steps: Generator<void, Result, undefined>,
  pause: () => Promise<void>,
): Promise<Result> {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await pause();
  }
}

/** Nothing for a young file, then growing with its age. */
function agePenalty(ageMs: number, maxAgeMs: number): number {
  if (ageMs >= maxAgeMs) return OVERDUE_PENALTY_BYTES;
  if (ageMs * 2 < maxAgeMs) return 0;
  return Math.ceil((AGING_PENALTY_BYTES * ageMs) / maxAgeMs);
}

/**
 * A small seeded generator (mulberry32) for decisions that must be repeatable.
 * Not for keys or anything that must not be guessed.
 */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
