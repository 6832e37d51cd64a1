/**
 * Which trunks that are not full to join now. Pure.
 *
 * A slow site fills no trunk before its files reach their age limit, so its trunks are thin. Thin
 * trunks that together fill one are joined into it. Until then there are at most
 * MAX_THIN_TRUNKS: beyond that, those whose files were written least often are joined, so that no
 * file is written much oftener than others. One that is much larger than these together is left.
 * Once a file is so old that it is to have its id, all are joined, and what comes of it stays.
 *
 * With at most k thin trunks at a time and each byte written r + 2 times, a trunk can grow
 * from (k + r) over r thin ones, whatever the order of joining. Hence the limit: 19 are enough for
 * three writes where a trunk fills within three hours, at the age limit of a minute.
 */
export interface ThinTrunk {
  readonly id: number;
  /** How much of a full trunk its living files are. */
  readonly share: number;
  /** How often its files have been written. */
  readonly level: number;
  /** When the oldest of them was staged, unix milliseconds. */
  readonly oldestAt: number;
  /** One of its files is to have its id by now. */
  readonly isOverdue: boolean;
}

export const MAX_THIN_TRUNKS = 19;
/** A trunk of this share stays as it is. */
const FULL_SHARE = 0.9;
/** A trunk so many times larger than the smaller ones of its level is not joined with them. */
const MUCH_LARGER = 4;
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
  const full = filling(thin, waitingShare);
  if (full) return full;
  if (thin.some(({ isOverdue }) => isOverdue)) return thin;
  return thin.length > MAX_THIN_TRUNKS ? leastWritten(thin) : [];
}

/**
 * Oldest first: files of a group that came in different minutes come together. Undefined if all
 * of them fill none.
 */
function filling(
  thin: readonly ThinTrunk[],
  waitingShare: number,
): readonly ThinTrunk[] | undefined {
  const oldestFirst = [...thin].sort((a, b) => a.oldestAt - b.oldestAt || a.id - b.id);
  let sum = waitingShare;
  for (const [at, { share }] of oldestFirst.entries()) {
    sum += share;
    if (sum >= CHOICE_SHARE) return oldestFirst.slice(0, at + 1);
  }
  return undefined;
}

/** Two at the least. */
function leastWritten(thin: readonly ThinTrunk[]): readonly ThinTrunk[] {
  const order = [...thin].sort((a, b) => a.level - b.level || a.share - b.share || a.id - b.id);
  const [first, second] = order as [ThinTrunk, ThinTrunk];
  let sum = first.share + second.share;
  let end = 2;
  for (const { level, share } of order.slice(end)) {
    if (level > second.level || share > MUCH_LARGER * sum) break;
    sum += share;
    end += 1;
  }
  return order.slice(0, end);
}
