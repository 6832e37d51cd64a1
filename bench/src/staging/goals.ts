import { atLeast, atMost, type Goal, greatestOf, medianOf } from '../harness/goals.js';
import { costId } from './costs.js';
import { IN_FLIGHT, type Plan, SMALL_ROWS } from './plan.js';
import { STATES, startId } from './starting.js';
import { uploadId } from './writing.js';

/** What staging is to reach. Ratios are medians of the runs' own ratios. */

const MAX_READY_SECONDS = 2;
const MAX_MEMORY_MIB = 200;
const MAX_COST_RATIO = 1.3;
const MIN_SYNC_SHARE = 0.8;
const MIN_PLAIN_SHARE = 0.7;

export const WRITING_GOALS: readonly Goal[] = [
  atLeast(
    'group-commit.sync-vs-os',
    `uploads/s, ${IN_FLIGHT} in flight: \`sync\` at least ${MIN_SYNC_SHARE} x \`os\``,
    MIN_SYNC_SHARE,
    medianOf(uploadId('mixed', 'sync-vs-os')),
  ),
  atLeast(
    'container.write-vs-plain',
    `container: at least ${MIN_PLAIN_SHARE} x plain appends with a sync each`,
    MIN_PLAIN_SHARE,
    medianOf('container.write-vs-plain'),
  ),
];

export function startingGoals(plan: Plan): readonly Goal[] {
  const files = plan.startFiles.toLocaleString('en-US');
  return [
    atMost(
      'start.ready.1m',
      `ready within ${MAX_READY_SECONDS} s with ${files} files, staged or merged (the slower)`,
      MAX_READY_SECONDS,
      greatestOf(STATES.map((state) => startId(state, 'ready'))),
    ),
    atMost(
      'start.memory.1m',
      `at most ${MAX_MEMORY_MIB} MiB when ready with ${files} files, staged or merged (the greater)`,
      MAX_MEMORY_MIB,
      greatestOf(STATES.map((state) => startId(state, 'memory'))),
    ),
  ];
}

export function costGoals(plan: Plan): readonly Goal[] {
  const rows = plan.largeRows.toLocaleString('en-US');
  return (['put', 'get', 'delete'] as const).map((operation) =>
    atMost(
      costId(operation, 'ratio'),
      `${operation} with ${rows} files: at most ${MAX_COST_RATIO} x its cost with ${SMALL_ROWS.toLocaleString('en-US')}`,
      MAX_COST_RATIO,
      medianOf(costId(operation, 'ratio')),
    ),
  );
}
