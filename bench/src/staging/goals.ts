import type { Figures } from '../harness/figures.js';
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

export function addStagingGoals(figures: Figures, plan: Plan): void {
  const atMost = (id: string, goal: string, value: number, bound: number) =>
    figures.addGoal({ id, goal, value, met: value <= bound });
  const atLeast = (id: string, goal: string, value: number, bound: number) =>
    figures.addGoal({ id, goal, value, met: value >= bound });
  const worst = (what: string) =>
    Math.max(...STATES.map((state) => figures.summary(startId(state, what)).median));
  const files = plan.startFiles.toLocaleString('en-US');
  const rows = plan.largeRows.toLocaleString('en-US');

  atMost(
    'start.ready.1m',
    `ready within ${MAX_READY_SECONDS} s with ${files} files, staged or merged (the slower)`,
    worst('ready'),
    MAX_READY_SECONDS,
  );
  atMost(
    'start.memory.1m',
    `at most ${MAX_MEMORY_MIB} MiB when ready with ${files} files, staged or merged (the greater)`,
    worst('memory'),
    MAX_MEMORY_MIB,
  );
  for (const operation of ['put', 'get', 'delete'] as const) {
    const id = costId(operation, 'ratio');
    atMost(
      id,
      `${operation} with ${rows} files: at most ${MAX_COST_RATIO} x its cost with ${SMALL_ROWS.toLocaleString('en-US')}`,
      figures.summary(id).median,
      MAX_COST_RATIO,
    );
  }
  atLeast(
    'group-commit.sync-vs-os',
    `uploads/s, ${IN_FLIGHT} in flight: \`sync\` at least ${MIN_SYNC_SHARE} x \`os\``,
    figures.summary(uploadId('mixed', 'sync-vs-os')).median,
    MIN_SYNC_SHARE,
  );
  atLeast(
    'container.write-vs-plain',
    `container: at least ${MIN_PLAIN_SHARE} x plain appends with a sync each`,
    figures.summary('container.write-vs-plain').median,
    MIN_PLAIN_SHARE,
  );
}
