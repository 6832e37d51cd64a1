import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { atMost, type Goal, medianOf } from '../harness/goals.js';
import { spread, table } from '../harness/markdown.js';
import type { LookUpHandlers } from './look-up-process.js';
import type { Plan } from './plan.js';

/** What a look in the cache costs, with the filter in front and without. */

const MAX_MICROSECONDS = 1;
const VARIANTS = [
  { id: 'filter', name: 'filter, then map', filter: true },
  { id: 'map', name: 'map alone', filter: false },
] as const;

function lookUpId(variant: string, outcome: 'hit' | 'miss'): string {
  return `look-up.${variant}.${outcome}`;
}

export async function measureLookUps(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 1; run <= plan.runs; run += 1) {
    context.progress(`look-ups, run ${run} of ${plan.runs}`);
    for (const { id, filter } of VARIANTS) {
      for (const outcome of ['hit', 'miss'] as const) {
        await using child = new Child<LookUpHandlers>(
          new URL('./look-up-process.js', import.meta.url),
        );
        const options = { filter, found: outcome === 'hit', lookUps: plan.lookUps };
        const microseconds = await child.call('measure', options);
        context.figures.add(lookUpId(id, outcome), 'µs', microseconds);
      }
    }
  }
}

export function showLookUps({ figures, print }: BenchmarkContext): void {
  const rows = VARIANTS.map(({ id, name }) => [
    name,
    spread(figures.summary(lookUpId(id, 'hit'))),
    spread(figures.summary(lookUpId(id, 'miss'))),
  ]);
  print(
    `## A look in the cache\n\nCPU time in µs, median (least–greatest), counting the request for admission included:\n\n${table(
      ['', 'Found', 'Not found'],
      rows,
    )}`,
  );
}

export const LOOK_UP_GOALS: readonly Goal[] = [
  atMost(
    lookUpId('filter', 'hit'),
    `filter and map: under ${MAX_MICROSECONDS} µs a read`,
    MAX_MICROSECONDS,
    medianOf(lookUpId('filter', 'hit')),
  ),
];
