/**
 * Which trunks that are not full to join now. Pure.
 *
 * A slow site fills no trunk before its files reach their age limit, so its trunks are thin. Thin
 * trunks that together fill one are joined into it. Until then there are at most
 * MAX_THIN_TRUNKS: beyond that the smallest are joined, and with them every next larger
 * one that is no larger than those before it together. So a trunk is written again only when
 * it at least doubles, or when there are many of its size: levels come of themselves,
 * and none is stored.
 *
 * With at most k thin trunks at a time and each byte written r + 2 times, a trunk can grow
 * from (k + r) over r thin ones, whatever the order of joining. Hence the limit: 19 are enough for
 * three writes where a trunk fills within three hours, at the age limit of a minute.
 */
export interface ThinTrunk {
  readonly id: number;
  /** How much of a full trunk its living files are. */
  readonly share: number;
}

export const MAX_THIN_TRUNKS = 19;
/** A trunk of this share stays as it is. */
export const FULL_SHARE = 0.9;
/** A near-perfect fit needs a little to choose from. */
const CHOICE_SHARE = 1.005;

/** What a trunk can have at the most. */
export interface TrunkLimits {
  readonly bytes: number;
  readonly files: number;
}

/** How much of a full trunk these are. */
export function shareOf(files: TrunkLimits, limits: TrunkLimits): number {
  return Math.max(files.bytes / limits.bytes, files.files / limits.files);
}

/** True if a trunk that was chosen from what waited may be joined with others later. */
export function isThin(share: number, waitingShare: number): boolean {
  return share < FULL_SHARE && waitingShare < 1;
}

/** `waitingShare`: of files that are in no trunk yet; they come along. */
export function chooseJoin(thin: readonly ThinTrunk[], waitingShare: number): readonly ThinTrunk[] {
  const smallestFirst = [...thin].sort((a, b) => a.share - b.share || a.id - b.id);
  return filling(smallestFirst, waitingShare) ?? smallest(smallestFirst);
}

/** Largest first, so that little is left over; undefined if all together fill none. */
function filling(
  smallestFirst: readonly ThinTrunk[],
  waitingShare: number,
): readonly ThinTrunk[] | undefined {
  let sum = waitingShare;
  for (let at = smallestFirst.length - 1; at >= 0; at -= 1) {
    sum += smallestFirst[at]!.share;
    if (sum >= CHOICE_SHARE) return smallestFirst.slice(at);
  }
  return undefined;
}

function smallest(smallestFirst: readonly ThinTrunk[]): readonly ThinTrunk[] {
  if (smallestFirst.length <= MAX_THIN_TRUNKS) return [];
  let sum = smallestFirst[0]!.share + smallestFirst[1]!.share;
  let end = 2;
  while (end < smallestFirst.length && smallestFirst[end]!.share <= sum) {
    sum += smallestFirst[end]!.share;
    end += 1;
  }
  return smallestFirst.slice(0, end);
}
