/** A panel of forecasts: the member with the smallest recent mean error is believed. Pure. */

export interface Members {
  /** The last opinion of each member; undefined while it has none. */
  readonly opinions: readonly (number | undefined)[];
  /** Discounted sums of the errors, and of their counts. */
  readonly errors: readonly number[];
  readonly counts: readonly number[];
}

/** Discounted number of opinions that a member needs before it is believed. */
const LEAST_COUNT = 2;

export function startMembers(count: number): Members {
  return {
    opinions: new Array<undefined>(count).fill(undefined),
    errors: new Array<number>(count).fill(0),
    counts: new Array<number>(count).fill(0),
  };
}

/** Compares the last opinions with what came, and stores the new ones. */
export function judge(
  members: Members,
  value: number,
  memory: number,
  opinions: readonly (number | undefined)[],
): Members {
  const heard = members.opinions;
  return {
    opinions,
    errors: members.errors.map((sum, index) => {
      const opinion = heard[index];
      return opinion === undefined ? sum : sum * memory + Math.abs(opinion - value);
    }),
    counts: members.counts.map((sum, index) =>
      heard[index] === undefined ? sum : sum * memory + 1,
    ),
  };
}

/**
 * The opinion of the member with the smallest error, the first of equals; before any is trusted,
 * the first opinion. Undefined if there is none.
 */
export function believed({ opinions, errors, counts }: Members): number | undefined {
  let best: number | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const [index, opinion] of opinions.entries()) {
    const count = counts[index]!;
    if (opinion === undefined || count < LEAST_COUNT) continue;
    const mean = errors[index]! / count;
    if (mean < least) {
      least = mean;
      best = opinion;
    }
  }
  return best ?? opinions.find((opinion) => opinion !== undefined);
}
