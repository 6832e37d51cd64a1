import type { Parameters } from './parameters.js';

/**
 * The load model of one server (section 3): how much small-file load it may carry so
 * that metadata gets all it asks for, and how much has to go. All loads are bytes per
 * interval; `capacityBytes` is B_logic for one interval. Nothing here is ever negative
 * or above B_logic, whatever is observed.
 */

export interface Load {
  /** L_meta. */
  readonly metadataBytes: number;
  /** L_io, or L'_io: what small files would take if they had the disk to themselves. */
  readonly smallFileBytes: number;
}

/** Eq. 1: E = (L_meta + L_io) / B_logic. */
export function efficiency(load: Load, capacityBytes: number): number {
  return (nonNegative(load.metadataBytes) + nonNegative(load.smallFileBytes)) / capacityBytes;
}

/** Eq. 2: a load that is carried cannot exceed B_logic: small files give way first. */
export function carried(load: Load, capacityBytes: number): Load {
  const metadataBytes = Math.min(nonNegative(load.metadataBytes), capacityBytes);
  const smallFileBytes = Math.min(nonNegative(load.smallFileBytes), capacityBytes - metadataBytes);
  return { metadataBytes, smallFileBytes };
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
 * The numerator of Eq. 4: what metadata leaves for small files, whether or not a forecast
 * says that so many come. Requests beyond it wait. (The text of section 4.2.2 blocks beyond
 * ML, the load that has to go: that would block everything on a server that has nothing to
 * move.)
 */
export function smallFileRoom(metadataBytes: number, capacityBytes: number, mark = 1): number {
  return nonNegative(mark * capacityBytes - nonNegative(metadataBytes));
}

export interface Allowance {
  /** L_meta, as forecast. */
  readonly metadataBytes: number;
  /** False: nothing of metadata was served in the last interval, and nothing waits. */
  readonly hasMetadata: boolean;
  /** What metadata has borne beside it so far; undefined: that is not known. */
  readonly bearableBytes?: number | undefined;
}

/**
 * What small files may have in the coming interval; undefined: all that comes. It is the
 * room of Eq. 4, or less where metadata bears less, and never below `smallFileShare` of
 * B_logic. Without metadata there is nothing to protect: a forecast of it may take long to
 * reach zero.
 */
export function smallFileAllowance(
  { metadataBytes, hasMetadata, bearableBytes }: Allowance,
  capacityBytes: number,
  { efficiencyMark, smallFileShare }: Pick<Parameters, 'efficiencyMark' | 'smallFileShare'>,
): number | undefined {
  if (!hasMetadata) return undefined;
  const room = smallFileRoom(metadataBytes, capacityBytes, efficiencyMark);
  const bearable = Math.min(room, bearableBytes ?? Number.POSITIVE_INFINITY);
  return Math.max(bearable, smallFileShare * capacityBytes);
}

/** Section 3.2: ML = (1 − ρ) · L'_io, the small-file load that has to go. */
export function loadToMove(load: Load, capacityBytes: number, mark = 1): number {
  const wanted = nonNegative(load.smallFileBytes);
  return nonNegative(wanted - allowedSmallFileBytes(load, capacityBytes, mark));
}

/**
 * Eq. 5: ML(MDS, MDS') = (mark − E(MDS')) · B_logic(MDS'): what the *target* can take
 * (the paper prints the efficiency of the overloaded server) without going above its
 * own mark.
 */
export function spareLoad(target: Load, capacityBytes: number, mark = 1): number {
  return nonNegative(mark - efficiency(target, capacityBytes)) * capacityBytes;
}

/** Eq. 6: ML(MDS, IOS) = ML(MDS) − ML(MDS, MDS'): what is left for the I/O servers. */
export function remainder(loadToMoveBytes: number, takenByTargetBytes: number): number {
  return nonNegative(loadToMoveBytes - nonNegative(takenByTargetBytes));
}

function nonNegative(value: number): number {
  return Math.max(value, 0);
}
