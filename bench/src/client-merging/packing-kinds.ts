import { anneal } from '@stevedore/staging';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { logUniform } from '../harness/file-set.js';
import { atMost, type Goal, greatestOf } from '../harness/goals.js';
import { round, spread, table } from '../harness/markdown.js';
import { seededRandom } from '../harness/seeded-random.js';
import { bestFitDecreasing, firstFit } from './packing.js';
import { SEED } from './plan.js';

/**
 * What annealing adds over six kinds of sizes: beside first-fit, best-fit decreasing, its own
 * choices without moves, and the optimum where that can be computed. And how long it holds up
 * others: it works in steps.
 */

const MIB = 2 ** 20;
const CAPACITY_BYTES = 64 * MIB;
const MAX_SLICE_MS = 4;
const MAX_WORK_MS = 20;
const MAX_MEDIAN_BYTES = 3;
/** All subsets of so many units are tried for the optimum. */
const MAX_OPTIMUM_UNITS = 16;

type Random = () => number;

function many(count: number, size: () => number): number[] {
  return Array.from({ length: count }, () => Math.round(size()));
}

const KINDS: readonly {
  readonly id: string;
  readonly name: string;
  readonly sizes: (random: Random) => number[];
}[] = [
  {
    id: 'paper',
    name: '5,000 of 2 to 100 KB',
    sizes: (random) => many(5_000, () => logUniform(random, 2_000, 100_000)),
  },
  {
    id: 'tiny',
    name: '60,000 of 0.2 to 4 KB',
    sizes: (r) => many(60_000, () => 200 + 3_800 * r()),
  },
  { id: 'medium', name: '50 of 1 to 4 MiB', sizes: (r) => many(50, () => (1 + 3 * r()) * MIB) },
  { id: 'large', name: '14 of 4 to 16 MiB', sizes: (r) => many(14, () => (4 + 12 * r()) * MIB) },
  { id: 'equal', name: '300 of 300,000 B, all equal', sizes: () => many(300, () => 300_000) },
  {
    id: 'groups',
    name: '3 groups of 33 to 63 MiB, 200 of 2 to 100 KB',
    sizes: (random) => [
      ...many(3, () => (33 + 30 * random()) * MIB),
      ...many(200, () => logUniform(random, 2_000, 100_000)),
    ],
  },
];

function id(kind: string, what: string): string {
  return `packing.${kind}.${what}`;
}

const IDS = KINDS.map((kind) => kind.id);

export const KINDS_GOALS: readonly Goal[] = [
  atMost(
    'packing.kinds.worse',
    'annealing: never worse than best-fit decreasing, in bytes, on any of six kinds of sizes',
    0,
    (figures) => Math.max(...IDS.map((kind) => figures.summary(id(kind, 'worse')).max)),
  ),
  atMost(
    'packing.kinds.paper',
    `annealing: at most ${MAX_MEDIAN_BYTES} bytes unfilled on the paper's sizes, median`,
    MAX_MEDIAN_BYTES,
    greatestOf([id('paper', 'annealing')]),
  ),
  atMost(
    'packing.kinds.work',
    `annealing: at most ${MAX_WORK_MS} ms of work on any kind, median`,
    MAX_WORK_MS,
    greatestOf(IDS.map((kind) => id(kind, 'work'))),
  ),
  atMost(
    'packing.kinds.slice',
    `annealing: the longest step takes at most ${MAX_SLICE_MS} ms on any kind, median`,
    MAX_SLICE_MS,
    greatestOf(IDS.map((kind) => id(kind, 'slice'))),
  ),
];

export function compareKinds({ figures, print, progress }: BenchmarkContext, runs: number): void {
  for (const kind of KINDS) {
    progress(`packing ${kind.name}, ${runs} times`);
    for (let run = 0; run < runs; run += 1) {
      const sizes = kind.sizes(seededRandom(SEED + run));
      const decreasing = bestFitDecreasing(sizes, CAPACITY_BYTES).unfilledBytes;
      const annealed = timed(sizes, SEED + run);
      const add = (what: string, value: number) => figures.add(id(kind.id, what), 'bytes', value);
      add('first-fit', firstFit(sizes, CAPACITY_BYTES).unfilledBytes);
      add('decreasing', decreasing);
      add('without-moves', timed(sizes, SEED + run, 0).unfilledBytes);
      add('annealing', annealed.unfilledBytes);
      add('worse', annealed.unfilledBytes - decreasing);
      const optimum = leastUnfilled(sizes);
      if (optimum !== undefined) add('optimum', optimum);
      figures.add(id(kind.id, 'work'), 'ms', annealed.workMs);
      figures.add(id(kind.id, 'slice'), 'ms', annealed.longestMs);
    }
  }
  const summary = (kind: string, what: string) => figures.summary(id(kind, what));
  print(
    `## What annealing adds\n\nUnfilled of 64 MiB, bytes, median of ${runs} sets; work and longest step in ms.\n\n${table(
      ['', 'First-fit', 'Best-fit decr.', 'Without moves', 'Annealing', 'Optimum', 'Work', 'Step'],
      KINDS.map((kind) => [
        kind.name,
        summary(kind.id, 'first-fit').median,
        summary(kind.id, 'decreasing').median,
        summary(kind.id, 'without-moves').median,
        summary(kind.id, 'annealing').median,
        leastUnfilled(kind.sizes(seededRandom(SEED))) === undefined
          ? ''
          : round(summary(kind.id, 'optimum').median),
        spread(summary(kind.id, 'work')),
        spread(summary(kind.id, 'slice')),
      ]),
    )}`,
  );
}

function timed(sizes: readonly number[], seed: number, maxMoves?: number) {
  const units = sizes.map((bytes) => ({ bytes, files: 1, penalty: 0 }));
  const limits = { capacityBytes: CAPACITY_BYTES, maxFiles: units.length };
  const moves = maxMoves === undefined ? {} : { maxMoves };
  const steps = anneal(units, limits, { random: seededRandom(seed), ...moves });
  let workMs = 0;
  let longestMs = 0;
  for (;;) {
    const start = performance.now();
    const { done, value } = steps.next();
    const ms = performance.now() - start;
    workMs += ms;
    longestMs = Math.max(longestMs, ms);
    if (done) return { unfilledBytes: value.unfilledBytes, workMs, longestMs };
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
