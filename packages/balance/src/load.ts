import type { Parameters } from './parameters.js';

/**
 * The load model of one server (section 3): how much small-file load may stay so that metadata gets
 * all it asks for, and how much has to move. All loads are bytes per interval; `capacityBytes` is
 * B_logic for one interval. No result is negative, whatever is observed.
 */

export interface Load {
  /** L_meta. */
  readonly metadataBytes: number;
  /** L_io, or L'_io: what small files would use if they had the disk to themselves. */
  readonly smallFileBytes: number;
}

/** Eq. 1: E = (L_meta + L_io) / B_logic. */
export function efficiency(load: Load, capacityBytes: number): number {
  return (nonNegative(load.metadataBytes) + nonNegative(load.smallFileBytes)) / capacityBytes;
}

/**
 * Eq. 4: ρ = (E · B_logic − L_meta) / L'_io with E = `mark`, the share of the
 * small-file load that may stay: 0 to 1. Without small-file load it is 1.
 */
export function allowedShare(load: Load, capacityBytes: number, mark = 1): number {
  const wanted = nonNegative(load.smallFileBytes);
  if (wanted === 0) return 1;
  const room = smallFileRoom(load.metadataBytes, capacityBytes, mark);
  return Math.min(1, room / wanted);
}

/** Eq. 3: L_io = ρ · L'_io, the small-file load that may stay. */
export function allowedSmallFileBytes(load: Load, capacityBytes: number, mark = 1): number {
  return allowedShare(load, capacityBytes, mark) * nonNegative(load.smallFileBytes);
}

/**
 * The numerator of Eq. 4: what metadata leaves for small files, however many a forecast expects.
 * Requests beyond it wait. (Section 4.2.2 blocks requests beyond ML, the load that has to move. A
 * server with nothing to move would then block all of them.)
 */
export function smallFileRoom(metadataBytes: number, capacityBytes: number, mark = 1): number {
  return nonNegative(mark * capacityBytes - nonNegative(metadataBytes));
}

/**
 * Small-file load allowed in the coming interval beside so much metadata: the room of Eq. 4, and
 * never below `smallFileShare` of B_logic.
 */
export function smallFileAllowance(
  metadataBytes: number,
  capacityBytes: number,
  { efficiencyMark, smallFileShare }: Pick<Parameters, 'efficiencyMark' | 'smallFileShare'>,
): number {
  const room = smallFileRoom(metadataBytes, capacityBytes, efficiencyMark);
  return Math.max(room, smallFileShare * capacityBytes);
}

/** Section 3.2: ML = (1 − ρ) · L'_io, the small-file load that has to move. */
export function loadToMove(load: Load, capacityBytes: number, mark = 1): number {
  const wanted = nonNegative(load.smallFileBytes);
  return nonNegative(wanted - allowedSmallFileBytes(load, capacityBytes, mark));
}

/**
 * Eq. 5: ML(MDS, MDS') = (mark − E(MDS')) · B_logic(MDS'): what the *target* can take without
 * exceeding its own mark. (The paper prints the efficiency of the overloaded server.)
 */
export function spareLoad(target: Load, capacityBytes: number, mark = 1): number {
  return nonNegative(mark - efficiency(target, capacityBytes)) * capacityBytes;
}

function nonNegative(value: number): number {
  return Math.max(value, 0);
}
