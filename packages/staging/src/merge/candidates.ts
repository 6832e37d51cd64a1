import type { FileRow } from '../filemap/filemap.js';
import { anneal, type PackingUnit } from './annealing.js';
import { bytesInTrunk } from './trunk-plan.js';

/**
 * From waiting files to the members of a trunk. Pure. The units of choice are affinity groups, kept
 * together and in order of arrival, and single files. A group larger than a trunk is cut into
 * parts that fill one each.
 */

export interface CandidateUnit extends PackingUnit {
  readonly rows: readonly FileRow[];
}

export interface UnitLimits {
  readonly capacityBytes: number;
  readonly now: number;
  readonly maxAgeMs: number;
}

/** Leaving a file behind that is past its age costs more than any fill can win. */
const OVERDUE_PENALTY_BYTES = 2 ** 20;
const AGING_PENALTY_BYTES = 2 ** 16;

/** `rows` in order of arrival; the units come in the order of their first file. */
export function makeUnits(rows: readonly FileRow[], limits: UnitLimits): CandidateUnit[] {
  const units: {
    rows: FileRow[];
    bytes: number;
    files: number;
    penalty: number;
  }[] = [];
  const openGroups = new Map<string, number>();
  for (const row of rows) {
    const bytes = bytesInTrunk(row);
    const open = row.group === undefined ? undefined : openGroups.get(row.group);
    const unit = open === undefined ? undefined : units[open]!;
    if (unit && unit.bytes + bytes <= limits.capacityBytes) {
      unit.rows.push(row);
      unit.bytes += bytes;
      unit.files += 1;
      continue;
    }
    if (row.group !== undefined) openGroups.set(row.group, units.length);
    const penalty = agePenalty(limits.now - row.stagedAt, limits.maxAgeMs);
    units.push({ rows: [row], bytes, files: 1, penalty });
  }
  return units;
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
): Promise<FileRow[]> {
  const steps = anneal(units, limits, { random });
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value.chosen.flatMap((index) => units[index]!.rows);
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
