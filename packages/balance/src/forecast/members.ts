/**
 * A panel of opinions: each member's mean error, recent ones counting more, decides
 * whom to believe. Pure.
 */

export interface Members {
  /** What every member said last; undefined while it knows too little. */
  readonly opinions: readonly (number | undefined)[];
  /** Discounted sums of the errors, and of their number. */
  readonly errors: readonly number[];
  readonly counts: readonly number[];
}

/** A member has to have been heard so often before it is believed, discounted. */
const LEAST_COUNT = 2;

export function startMembers(count: number): Members {
  return {
    opinions: new Array<undefined>(count).fill(undefined),
    errors: new Array<number>(count).fill(0),
    counts: new Array<number>(count).fill(0),
  };
}

/** Holds the last opinions against what came, and takes the new ones. */
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

/** The opinion of the member that erred least, the first of equals; undefined: none is known. */
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
