import { anneal } from '@stevedore/staging';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { logUniform } from '../harness/file-set.js';
import { atMost, type Goal, medianOf } from '../harness/goals.js';
import { spread, table } from '../harness/markdown.js';
import { seededRandom } from '../harness/seeded-random.js';
import {
  bestFit,
  bestFitDecreasing,
  firstFit,
  firstFitDecreasing,
  type Packed,
} from './packing.js';
import { type Plan, SEED, SMALL } from './plan.js';

/**
 * Filling one trunk of 64 MiB from 5,000 waiting files: annealing beside first-fit
 * and best-fit. Unfilled bytes, time, and how much of the oldest half stays behind,
 * for a file that is passed over again and again waits longest.
 */

const CANDIDATES = 5_000;
const CAPACITY_BYTES = 64 * 2 ** 20;
const MAX_UNFILLED_BYTES = 64;
const MAX_MS = 20;

export const PACKING_GOALS: readonly Goal[] = [
  atMost(
    'packing.annealing.unfilled',
    `annealing: at most ${MAX_UNFILLED_BYTES} bytes of 64 MiB unfilled, in every run`,
    MAX_UNFILLED_BYTES,
    (figures) => figures.summary('packing.annealing.unfilled').max,
  ),
  atMost(
    'packing.annealing.time',
    `annealing: at most ${MAX_MS} ms for 5,000 candidates, median`,
    MAX_MS,
    medianOf('packing.annealing.time'),
  ),
];

type Packer = (sizes: readonly number[], random: () => number) => Packed;

const PACKERS: readonly { readonly id: string; readonly name: string; readonly pack: Packer }[] = [
  { id: 'annealing', name: 'annealing', pack: annealed },
  { id: 'first-fit', name: 'first-fit', pack: (sizes) => firstFit(sizes, CAPACITY_BYTES) },
  {
    id: 'first-fit-decreasing',
    name: 'first-fit decreasing',
    pack: (sizes) => firstFitDecreasing(sizes, CAPACITY_BYTES),
  },
  { id: 'best-fit', name: 'best-fit', pack: (sizes) => bestFit(sizes, CAPACITY_BYTES) },
  {
    id: 'best-fit-decreasing',
    name: 'best-fit decreasing',
    pack: (sizes) => bestFitDecreasing(sizes, CAPACITY_BYTES),
  },
];

export function comparePackings({ figures, print, progress }: BenchmarkContext, plan: Plan): void {
  progress(`packing ${CANDIDATES} candidates, ${plan.packings} times`);
  for (let run = 0; run < plan.packings; run += 1) {
    const random = seededRandom(SEED + run);
    const sizes = Array.from({ length: CANDIDATES }, () =>
      logUniform(random, SMALL.minBytes, SMALL.maxBytes),
    );
    for (const { id, pack } of PACKERS) {
      const start = performance.now();
      const { unfilledBytes, chosen } = pack(sizes, random);
      const ms = performance.now() - start;
      check(id, sizes, chosen, unfilledBytes);
      figures.add(`packing.${id}.unfilled`, 'bytes', unfilledBytes);
      figures.add(`packing.${id}.time`, 'ms', ms);
      figures.add(`packing.${id}.old-left-behind`, 'percent', oldLeftBehind(chosen));
    }
  }
  print(
    `## Filling a trunk\n\n${CANDIDATES.toLocaleString('en-US')} candidates of 2 to 100 KB, log-uniform; median (least–greatest) of ${plan.packings} sets. First-fit and best-fit spread all candidates over trunks; the fullest trunk counts.`,
  );
  print(
    table(
      ['', 'Unfilled of 64 MiB, bytes', 'Time, ms', 'Oldest half left behind, %'],
      PACKERS.map(({ id, name }) => [
        name,
        spread(figures.summary(`packing.${id}.unfilled`)),
        spread(figures.summary(`packing.${id}.time`)),
        spread(figures.summary(`packing.${id}.old-left-behind`)),
      ]),
    ),
  );
}

function annealed(sizes: readonly number[], random: () => number): Packed {
  const units = sizes.map((bytes) => ({ bytes, files: 1, penalty: 0 }));
  const limits = { capacityBytes: CAPACITY_BYTES, maxFiles: CANDIDATES };
  const steps = anneal(units, limits, { random });
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** A packing that cheats would look best of all. */
function check(
  id: string,
  sizes: readonly number[],
  chosen: readonly number[],
  unfilledBytes: number,
): void {
  const bytes = chosen.reduce((sum, index) => sum + sizes[index]!, 0);
  const isSound =
    new Set(chosen).size === chosen.length && bytes + unfilledBytes === CAPACITY_BYTES;
  if (!isSound || unfilledBytes < 0) throw new Error(`${id} gave a packing that does not add up`);
}

function oldLeftBehind(chosen: readonly number[]): number {
  const oldest = CANDIDATES / 2;
  const taken = chosen.filter((index) => index < oldest).length;
  return (100 * (oldest - taken)) / oldest;
}
