/**
 * Decides which thin trunks to join now. Does no I/O.
 *
 * A slow site fills no trunk before its files reach their age limit, so its trunks are thin. Thin
 * trunks that together fill one are joined into it. Until then there are at most MAX_THIN_TRUNKS:
 * beyond that, the trunks whose files were written least often are joined, so that no file is
 * written much more often than others. A trunk much larger than the rest of these is left out. Once
 * a file is so old that it must get its id, all thin trunks are joined, and the result is final.
 *
 * With at most k thin trunks at a time and each byte written r + 2 times, a trunk can grow from (k
 * + r) over (r + 1) thin ones, whatever the order of joining. Hence the limit: 19 are enough for
 * three writes where a trunk fills within three hours, at the age limit of a minute.
 */
export interface ThinTrunk {
  readonly id: number;
  /** The size of its living files, as a share of a full trunk. */
  readonly share: number;
  /** How often its files have been written. */
  readonly level: number;
  /** When the oldest of them was staged, in Unix milliseconds. */
  readonly oldestAt: number;
  /** One of its files is so old that it must get its id. */
  readonly isOverdue: boolean;
}

export const MAX_THIN_TRUNKS = 19;
/** A trunk filled to this share is final. */
const FULL_SHARE = 0.999;
/** A trunk this many times larger than the smaller ones of its level is not joined with them. */
const MUCH_LARGER = 4;
/** A near-perfect fit needs a little to choose from. */
const CHOICE_SHARE = 1.005;

/** Maximum interval at which thin trunks are checked for files that must get their ids. */
const JOIN_INTERVAL_MS = 60_000;
const MIN_JOIN_INTERVAL_MS = 1_000;

export function joinIntervalMs(idMaxAge: number): number {
  return Math.min(JOIN_INTERVAL_MS, Math.max(MIN_JOIN_INTERVAL_MS, idMaxAge));
}

/** When a file that was staged then has its id at the latest, if FastDFS takes its trunk at once. */
export function latestIdAt(stagedAt: number, mergeMaxAge: number, idMaxAge: number): number {
  const joined = idMaxAge === 0 ? 0 : idMaxAge + joinIntervalMs(idMaxAge);
  return stagedAt + Math.max(mergeMaxAge, joined);
}

/** Maximum size and number of files of a trunk. */
export interface TrunkLimits {
  readonly bytes: number;
  readonly files: number;
}

/** The size of these files, as a share of a full trunk. */
export function shareOf(files: TrunkLimits, limits: TrunkLimits): number {
  return Math.max(files.bytes / limits.bytes, files.files / limits.files);
}

/**
 * True if a trunk may be joined with others later. `choiceShare` is the share of the files that it
 * was chosen from.
 */
export function isThin(share: number, choiceShare: number): boolean {
  return share < FULL_SHARE && choiceShare < 1;
}

/** `waitingShare`: the share of files not yet in a trunk, which are merged, too. */
export function chooseJoin(thin: readonly ThinTrunk[], waitingShare: number): readonly ThinTrunk[] {
  // Oldest first, so that files of a group that arrived in different minutes come together.
  const oldestFirst = [...thin].sort((a, b) => a.oldestAt - b.oldestAt);
  let sum = waitingShare;
  for (const [at, { share }] of oldestFirst.entries()) {
    sum += share;
    if (sum >= CHOICE_SHARE) return oldestFirst.slice(0, at + 1);
  }
  if (thin.some(({ isOverdue }) => isOverdue)) return thin;
  return thin.length > MAX_THIN_TRUNKS ? leastWritten(thin) : [];
}

/** The trunks written least often; at least two. */
function leastWritten(thin: readonly ThinTrunk[]): readonly ThinTrunk[] {
  const order = [...thin].sort((a, b) => a.level - b.level || a.share - b.share);
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
