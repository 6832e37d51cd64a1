/**
 * The classic ways to fill bins, to hold annealing against: first-fit and best-fit,
 * in order of arrival and by decreasing size. Pure.
 *
 * They spread all candidates over as many trunks as it takes; what counts is the
 * fullest one, for that is the trunk one would send now.
 */

export interface Packed {
  readonly unfilledBytes: number;
  /** Indexes of the candidates in the fullest trunk. */
  readonly chosen: readonly number[];
}

interface Bin {
  left: number;
  readonly chosen: number[];
}

type Choose = (bins: readonly Bin[], size: number) => Bin | undefined;

/** Each candidate goes to the first trunk that has room. */
export function firstFit(sizes: readonly number[], capacityBytes: number): Packed {
  return pack(sizes, arrival(sizes), capacityBytes, firstThatFits);
}

/** First-fit, the largest candidates first. */
export function firstFitDecreasing(sizes: readonly number[], capacityBytes: number): Packed {
  return pack(sizes, decreasing(sizes), capacityBytes, firstThatFits);
}

/** Each candidate goes to the trunk that it leaves the least room in. */
export function bestFit(sizes: readonly number[], capacityBytes: number): Packed {
  return pack(sizes, arrival(sizes), capacityBytes, tightest);
}

/** Best-fit, the largest candidates first. */
export function bestFitDecreasing(sizes: readonly number[], capacityBytes: number): Packed {
  return pack(sizes, decreasing(sizes), capacityBytes, tightest);
}

function pack(
  sizes: readonly number[],
  order: readonly number[],
  capacityBytes: number,
  choose: Choose,
): Packed {
  const bins: Bin[] = [];
  for (const index of order) {
    const size = sizes[index]!;
    if (size > capacityBytes) continue;
    let bin = choose(bins, size);
    if (!bin) {
      bin = { left: capacityBytes, chosen: [] };
      bins.push(bin);
    }
    bin.left -= size;
    bin.chosen.push(index);
  }
  let fullest: Bin = { left: capacityBytes, chosen: [] };
  for (const bin of bins) if (bin.left < fullest.left) fullest = bin;
  return { unfilledBytes: fullest.left, chosen: fullest.chosen };
}

function firstThatFits(bins: readonly Bin[], size: number): Bin | undefined {
  return bins.find((bin) => bin.left >= size);
}

function tightest(bins: readonly Bin[], size: number): Bin | undefined {
  let best: Bin | undefined;
  for (const bin of bins) {
    if (bin.left >= size && (best === undefined || bin.left < best.left)) best = bin;
  }
  return best;
}

function arrival(sizes: readonly number[]): number[] {
  return sizes.map((_, index) => index);
}

function decreasing(sizes: readonly number[]): number[] {
  return arrival(sizes).sort((a, b) => sizes[b]! - sizes[a]!);
}
