import type { FileRow } from '../filemap/filemap.js';
import { anneal, type PackingUnit } from './annealing.js';
import { type ExpiryClass, ExpirySums, expiryClassOf } from './expiry.js';
import { bytesInTrunk } from './trunk-plan.js';

/**
 * Turns waiting files into the units from which a trunk's members are chosen: affinity groups, kept
 * together and in order of arrival, and single files. Of a group larger than a trunk, the first
 * part fills one; the rest waits for the next. Does no I/O.
 */

export interface CandidateUnit extends PackingUnit {
  readonly rows: readonly FileRow[];
  /** A file of its group arrived a moment ago: more may follow. */
  readonly isOpen: boolean;
  /** The rest of its group waits for the next trunk. */
  readonly isCut: boolean;
  /** That of its first file. */
  readonly expiry: ExpiryClass;
}

/** A group is complete when no file has arrived for this long. */
const GROUP_PAUSE_MS = 2_000;

export interface UnitLimits {
  readonly capacityBytes: number;
  readonly maxFiles: number;
  readonly now: number;
  readonly maxAgeMs: number;
}

/** Leaving an overdue file behind costs more than any fill can gain. */
const OVERDUE_PENALTY_BYTES = 2 ** 20;
const AGING_PENALTY_BYTES = 2 ** 16;

const ROWS_PER_STEP = 1_000;

/**
 * `rows` must be in order of arrival; units are ordered by their first file. Yields between steps,
 * so that other work gets its turn.
 */
export function* unitsInSteps(
  rows: readonly FileRow[],
  limits: UnitLimits,
): Generator<void, CandidateUnit[], undefined> {
  const { capacityBytes, maxFiles, now, maxAgeMs } = limits;
  const units: Unit[] = [];
  const groups = new Map<string | undefined, Unit>();
  for (const [index, row] of rows.entries()) {
    if (index % ROWS_PER_STEP === ROWS_PER_STEP - 1) yield;
    const bytes = bytesInTrunk(row);
    const group = groups.get(row.group);
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
    const expiry = expiryClassOf(row.expiresAt, now);
    const unit = { rows: [row], bytes, files: 1, penalty, isOpen, isCut: false, expiry };
    units.push(unit);
    if (row.group !== undefined) groups.set(row.group, unit);
  }
  // Files moved out of trunks come after newer files: sort by age.
  for (const { rows } of groups.values()) rows.sort((a, b) => a.stagedAt - b.stagedAt);
  return units;
}

type Unit = { -readonly [Name in keyof CandidateUnit]: CandidateUnit[Name] } & {
  readonly rows: FileRow[];
};

function isFresh({ stagedAt }: FileRow, now: number): boolean {
  return stagedAt > now - GROUP_PAUSE_MS && stagedAt <= now;
}

/** Of several classes, one needs a little more than a trunk, so that there is a choice. */
const CHOICE_FACTOR = 1.005;

/**
 * The units to choose from: those of one expiry class, if they fill a trunk; of several such
 * classes, that of the oldest unit. Otherwise undefined, if merging may wait: more files may come,
 * and groups that may still grow are left out. If it may not, all units.
 */
export function unitsToChooseFrom(
  units: readonly CandidateUnit[],
  { capacityBytes, maxFiles }: Pick<UnitLimits, 'capacityBytes' | 'maxFiles'>,
  mayWait: boolean,
): readonly CandidateUnit[] | undefined {
  const whole = mayWait ? units.filter(({ isOpen, isCut }) => !isOpen || isCut) : units;
  const sums = new ExpirySums();
  for (const { expiry, bytes, files } of whole) sums.add(expiry, bytes, files);
  const classes = sums.classes();
  const wantedBytes = capacityBytes * (classes.length > 1 ? CHOICE_FACTOR : 1);
  const full = classes.find((expiry) => {
    const { bytes, files } = sums.of(expiry);
    return bytes >= wantedBytes || files >= maxFiles;
  });
  if (full !== undefined) return whole.filter(({ expiry }) => expiry === full);
  return mayWait ? undefined : units;
}

export function sumOf(units: readonly CandidateUnit[]): { bytes: number; files: number } {
  const sum = { bytes: 0, files: 0 };
  for (const { bytes, files } of units) {
    sum.bytes += bytes;
    sum.files += files;
  }
  return sum;
}

export interface Members {
  readonly rows: readonly FileRow[];
  /** Bytes that they add to the trunk. */
  readonly bytes: number;
}

/**
 * Rows of one trunk, groups contiguous, ordered by the arrival of their first file. `pause` gives
 * other work its turn.
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

/** Runs a generator to its end, with a pause after each step. */
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

/** Zero for a young file, then growing with its age. */
function agePenalty(ageMs: number, maxAgeMs: number): number {
  if (ageMs >= maxAgeMs) return OVERDUE_PENALTY_BYTES;
  if (ageMs * 2 < maxAgeMs) return 0;
  return Math.ceil((AGING_PENALTY_BYTES * ageMs) / maxAgeMs);
}

/**
 * A small seeded generator (mulberry32) for reproducible decisions. Not for keys or anything that
 * must be unpredictable.
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
