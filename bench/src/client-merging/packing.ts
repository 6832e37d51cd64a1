import { anneal } from '@stevedore/staging';
import type { BenchmarkContext, Part } from '../harness/benchmark.js';
import type { Figures } from '../harness/figures.js';
import { logUniform } from '../harness/file-set.js';
import { atMost, greatestOf, over } from '../harness/goals.js';
import { middle } from '../harness/markdown.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { SEED } from './plan.js';

/**
 * How well simulated annealing fills a trunk, over the paper's sizes and others: beside first-fit,
 * best-fit, best-fit decreasing, its own choices without moves, and the optimum where that can be
 * computed. And how long it holds up others: it works in steps.
 *
 * First-fit and best-fit spread all candidates over as many trunks as it takes; what counts is the
 * fullest one, for that is the trunk one would send now.
 */

const MIB = 2 ** 20;
const CAPACITY_BYTES = 64 * MIB;
const SMALL_FILE_LIMIT_BYTES = 4 * MIB;
/** All subsets of so many units are tried for the optimum. */
const MAX_OPTIMUM_UNITS = 16;

type Random = () => number;

function many(count: number, size: () => number): number[] {
  return Array.from({ length: count }, () => Math.round(size()));
}

/** A few KB to 100 MB, as in the paper; what is larger is stored whole. */
function paperSizes(random: Random, count: number, limitBytes: number): number[] {
  const sizes: number[] = [];
  while (sizes.length < count) {
    const bytes = Math.round(logUniform(random, 2_000, 100_000_000));
    if (bytes <= limitBytes) sizes.push(bytes);
  }
  return sizes;
}

const KINDS: Readonly<
  Record<string, { readonly name: string; readonly sizes: (random: Random) => number[] }>
> = {
  paper: {
    name: 'The paper’s: 14 of 2 KB to 64 MiB',
    sizes: (random) => paperSizes(random, 14, CAPACITY_BYTES),
  },
  'paper-small': {
    name: 'The paper’s below the limit: 400 of 2 KB to 4 MiB',
    sizes: (random) => paperSizes(random, 400, SMALL_FILE_LIMIT_BYTES),
  },
  small: {
    name: '5,000 of 2 to 100 KB',
    sizes: (random) => many(5_000, () => logUniform(random, 2_000, 100_000)),
  },
  tiny: { name: '60,000 of 0.2 to 4 KB', sizes: (r) => many(60_000, () => 200 + 3_800 * r()) },
  medium: { name: '50 of 1 to 4 MiB', sizes: (r) => many(50, () => (1 + 3 * r()) * MIB) },
  large: { name: '14 of 4 to 16 MiB', sizes: (r) => many(14, () => (4 + 12 * r()) * MIB) },
  equal: { name: '300 of 300,000 B, all equal', sizes: () => many(300, () => 300_000) },
  groups: {
    name: '3 groups of 33 to 63 MiB, 200 of 2 to 100 KB',
    sizes: (random) => [
      ...many(3, () => (33 + 30 * random()) * MIB),
      ...many(200, () => logUniform(random, 2_000, 100_000)),
    ],
  },
};
const IDS = Object.keys(KINDS).map((kind) => `packing.${kind}`);

const most = (kind: string, what: string) => (figures: Figures) =>
  figures.summary(`packing.${kind}.${what}`).max;

export function packing(runs: number): Part {
  return {
    goals: [
      atMost(
        'packing.worse',
        'annealing: never worse than best-fit decreasing, in bytes, on any kind of sizes',
        0,
        (figures) => Math.max(...Object.keys(KINDS).map((kind) => most(kind, 'worse')(figures))),
      ),
      atMost(
        'packing.paper.beyond-optimum',
        "annealing: the optimum on the paper's sizes, in every run (bytes unfilled beyond it)",
        0,
        most('paper', 'beyond-optimum'),
      ),
      atMost(
        'packing.paper-small.most',
        "annealing: at most {} bytes of 64 MiB unfilled on the paper's sizes up to 4 MiB, in every run",
        64,
        most('paper-small', 'annealing'),
      ),
      atMost(
        'packing.small.most',
        'at most {} bytes unfilled on 2 to 100 KB, in every run',
        0,
        most('small', 'annealing'),
      ),
      over(
        'packing.medium.moves',
        'moves have a part on files that are merged, 50 of 1 to 4 MiB: unfilled bytes without them beyond those with them',
        0,
        (figures) =>
          figures.median('packing.medium.without-moves') -
          figures.median('packing.medium.annealing'),
      ),
      atMost(
        'packing.work',
        'annealing: at most {} ms of work on any kind, median',
        20,
        greatestOf(IDS.map((id) => `${id}.work`)),
      ),
      atMost(
        'packing.slice',
        'annealing: the longest step takes at most {} ms on any kind, median',
        4,
        greatestOf(IDS.map((id) => `${id}.slice`)),
      ),
    ],
    run: (context) => measurePacking(context, runs),
  };
}

async function measurePacking(context: BenchmarkContext, runs: number): Promise<void> {
  const { figures, print, table, progress } = context;
  for (const [kind, { name, sizes: sizesOf }] of Object.entries(KINDS)) {
    progress(`packing ${name}, ${runs} times`);
    for (let run = 0; run < runs; run += 1) {
      const sizes = sizesOf(new SeededRandom(SEED + run).next);
      const decreasing = sizes.toSorted((a, b) => b - a);
      const best = pack(decreasing, tightest);
      const annealed = timed(sizes, SEED + run);
      const optimum = leastUnfilled(sizes);
      const inBytes = (value: number | undefined) => [value, 'bytes'] as const;
      figures.addAll(`packing.${kind}`, {
        'first-fit': inBytes(pack(sizes, firstThatFits)),
        'best-fit': inBytes(pack(sizes, tightest)),
        decreasing: inBytes(best),
        'without-moves': inBytes(timed(sizes, SEED + run, 0).unfilledBytes),
        annealing: inBytes(annealed.unfilledBytes),
        worse: inBytes(annealed.unfilledBytes - best),
        optimum: inBytes(optimum),
        'beyond-optimum': inBytes(optimum && annealed.unfilledBytes - optimum),
        work: [annealed.workMs, 'ms'],
        slice: [annealed.longestMs, 'ms'],
      });
    }
  }
  print(
    `## Filling a trunk\n\nUnfilled of 64 MiB, bytes, median of ${runs} sets; work and longest step in ms. The paper gives no figure. *Without moves*: the first choice of annealing, without a single move; where that is nothing, as with 2 to 100 KB, annealing has no part.`,
  );
  table('packing', {
    head: '',
    rows: Object.entries(KINDS).map(([kind, { name }]) => [name, `packing.${kind}`]),
    columns: [
      ['First-fit', 'first-fit', middle],
      ['Best-fit', 'best-fit', middle],
      ['Best-fit decr.', 'decreasing', middle],
      ['Without moves', 'without-moves', middle],
      ['Annealing', 'annealing', middle],
      ['Optimum', 'optimum', middle],
      ['Work', 'work'],
      ['Step', 'slice'],
    ],
  });
}

/** Places of the trunk that takes the next file, from what is left in each; -1: a new one. */
type Choose = (left: readonly number[], size: number) => number;

const firstThatFits: Choose = (left, size) => left.findIndex((each) => each >= size);

const tightest: Choose = (left, size) => {
  let best = -1;
  for (const [at, each] of left.entries()) {
    if (each >= size && (best === -1 || each < left[best]!)) best = at;
  }
  return best;
};

/** Unfilled bytes of the fullest trunk. */
function pack(sizes: readonly number[], choose: Choose): number {
  const left: number[] = [];
  for (const size of sizes) {
    if (size > CAPACITY_BYTES) continue;
    const at = choose(left, size);
    if (at === -1) left.push(CAPACITY_BYTES - size);
    else left[at]! -= size;
  }
  return left.reduce((least, each) => Math.min(least, each), CAPACITY_BYTES);
}

function timed(sizes: readonly number[], seed: number, maxMoves?: number) {
  const units = sizes.map((bytes) => ({ bytes, files: 1, penalty: 0 }));
  const limits = { capacityBytes: CAPACITY_BYTES, maxFiles: units.length };
  const moves = maxMoves === undefined ? {} : { maxMoves };
  const steps = anneal(units, limits, { random: new SeededRandom(seed).next, ...moves });
  let [workMs, longestMs] = [0, 0];
  for (;;) {
    const start = performance.now();
    const { done, value } = steps.next();
    const ms = performance.now() - start;
    workMs += ms;
    longestMs = Math.max(longestMs, ms);
    if (!done) continue;
    // A packing that cheats would look best of all.
    const { unfilledBytes, chosen } = value;
    const bytes = chosen.reduce((sum, index) => sum + sizes[index]!, 0);
    const isOnce = new Set(chosen).size === chosen.length;
    if (!isOnce || unfilledBytes < 0 || bytes + unfilledBytes !== CAPACITY_BYTES) {
      throw new Error('annealing gave a packing that does not add up');
    }
    return { unfilledBytes, workMs, longestMs };
  }
}

/** Undefined where it would take too long. */
function leastUnfilled(sizes: readonly number[]): number | undefined {
  const [first = 0] = sizes;
  if (sizes.every((size) => size === first)) {
    return CAPACITY_BYTES - first * Math.min(sizes.length, Math.floor(CAPACITY_BYTES / first));
  }
  if (sizes.length > MAX_OPTIMUM_UNITS) return undefined;
  let best = 0;
  for (let subset = 0; subset < 2 ** sizes.length; subset += 1) {
    let sum = 0;
    for (const [bit, size] of sizes.entries()) if (subset & (1 << bit)) sum += size;
    if (sum <= CAPACITY_BYTES) best = Math.max(best, sum);
  }
  return CAPACITY_BYTES - best;
}
