/**
 * How much small-file load metadata bears beside it. Eq. 4 says what B_logic leaves, and
 * B_logic is known badly where a disk has slow moments or others use the machine. So
 * metadata itself is looked at as well: what it gets beside small files, as a share of
 * what it gets alone. Where that is too little, small files have less than Eq. 4 gives
 * them, and more again where it is enough.
 */

/** What was served of metadata, and in what time; what is long ago may count less. */
export interface ServedIn {
  readonly bytes: number;
  readonly requests: number;
  readonly ms: number;
}

export interface Seen {
  /** While no small file was beside it. */
  readonly alone: ServedIn;
  readonly beside: ServedIn;
}

export interface BearingBounds {
  /** Eq. 4: what B_logic leaves. */
  readonly roomBytes: number;
  /** What small files have in any case. */
  readonly assuredBytes: number;
}

/** Of what it gets alone, what metadata is to keep beside small files. */
const KEPT_MARK = 0.97;
/** One look tells little; these bound what it changes. */
const GAIN = 2;
const LEAST_FACTOR = 0.5;
const MOST_FACTOR = 1.1;

/** The share of what metadata gets alone that it keeps; undefined: nothing is known. */
export function keptShare({ alone, beside }: Seen): number | undefined {
  if (!(alone.ms > 0) || !(beside.ms > 0) || !(alone.bytes > 0)) return undefined;
  return beside.bytes / beside.ms / (alone.bytes / alone.ms);
}

/**
 * What small files may have from now on; `limitBytes` is what they could have until now.
 * Few requests come in more or less by chance: a share that is too small by no more than
 * that is none.
 */
export function bearableBytes(
  limitBytes: number,
  seen: Seen,
  { roomBytes, assuredBytes }: BearingBounds,
): number {
  const most = Math.max(roomBytes, assuredBytes);
  const kept = keptShare(seen);
  if (kept === undefined) return Math.max(assuredBytes, Math.min(most, limitBytes));
  const chance = 1 / Math.sqrt(Math.max(1, seen.alone.requests));
  const ratio = chance < 1 ? kept / (KEPT_MARK * (1 - chance)) : 1;
  const factor = Math.min(MOST_FACTOR, Math.max(LEAST_FACTOR, ratio ** GAIN));
  return Math.min(most, Math.max(assuredBytes, limitBytes * factor));
}
