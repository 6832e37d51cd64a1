/**
 * How much small-file load metadata tolerates. Eq. 4 gives what B_logic leaves, but B_logic is
 * inexact if a disk has slow moments or others use the machine. So metadata itself is measured:
 * what it gets beside small files, as a share of what it gets alone. If that is too little, small
 * files get less than Eq. 4 allows, and more again once it is enough.
 */

/** Metadata served, and in what time. Old values may be discounted. */
export interface ServedIn {
  readonly bytes: number;
  readonly requests: number;
  readonly ms: number;
}

export interface Seen {
  /** While small files were held back. */
  readonly alone: ServedIn;
  readonly beside: ServedIn;
}

export interface SustainableBounds {
  /** Eq. 4: what B_logic leaves. */
  readonly roomBytes: number;
  /** Least load for small files. */
  readonly assuredBytes: number;
}

/** Share of its stand-alone rate that metadata should keep beside small files. */
const KEPT_MARK = 0.97;
/** One measurement shows little; these bound its effect. */
const GAIN = 2;
const LEAST_FACTOR = 0.5;
const MOST_FACTOR = 1.1;

/** Share of its stand-alone rate that metadata keeps; undefined if not known. */
export function keptShare({ alone, beside }: Seen): number | undefined {
  if (!(alone.ms > 0) || !(beside.ms > 0) || !(alone.bytes > 0)) return undefined;
  return beside.bytes / beside.ms / (alone.bytes / alone.ms);
}

/**
 * The next limit for small files; `limitBytes` is the current one. A shortfall within the chance
 * error of few requests is ignored.
 */
export function sustainableBytes(
  limitBytes: number,
  seen: Seen,
  { roomBytes, assuredBytes }: SustainableBounds,
): number {
  const most = Math.max(roomBytes, assuredBytes);
  const kept = keptShare(seen);
  if (kept === undefined) return Math.max(assuredBytes, Math.min(most, limitBytes));
  const chance = 1 / Math.sqrt(Math.max(1, seen.alone.requests));
  const ratio = chance < 1 ? kept / (KEPT_MARK * (1 - chance)) : 1;
  const factor = Math.min(MOST_FACTOR, Math.max(LEAST_FACTOR, ratio ** GAIN));
  return Math.min(most, Math.max(assuredBytes, limitBytes * factor));
}
