import type { Benchmark } from '../harness/benchmark.js';
import { atLeast, atMost, greatestOf } from '../harness/goals.js';
import { count } from '../harness/markdown.js';
import { measureCosts } from './costs.js';
import { PLANS, SMALL_ROWS } from './plan.js';
import { measureStarting, STATES } from './starting.js';
import { measureWriting } from './writing.js';

/**
 * Staging: starts with many files, what an operation costs in a small and in a large
 * FileMap, and what durability costs.
 */

export const staging: Benchmark = {
  durability: 'sync; os where it is named, and where costs are compared',
  introduce({ scale }) {
    const { runs, costRuns } = PLANS[scale];
    return [
      `${runs} runs (costs: ${costRuns}), variants in turns, every measurement in a process of its own. Ratios are those of one run, then their median. MB are 10^6 bytes.`,
      'Uploads: `open()` with its embedded node, 64 at a time, nothing is merged meanwhile. Container: Staging alone; the plain loop appends exactly the batches that the container wrote, and syncs each.',
      'Starts: the default configuration, embedded node included, in a directory that a killed process left; FileMap and container are in the page cache. Memory is the resident set of the whole process.',
      'Costs: Staging, 64 operations at a time, random merged files in trunks of 2,000, durability `os`, so that no sync hides the FileMap; *find* is the FileMap’s look-up alone.',
    ].join('\n');
  },
  parts: (scale) => {
    const plan = PLANS[scale];
    const files = count(plan.startFiles);
    return {
      writing: {
        goals: [
          atLeast(
            'group-commit.mixed.sync-vs-os',
            `uploads/s, 64 in flight: \`sync\` at least {} x \`os\``,
            0.8,
          ),
          atLeast(
            'container.write-vs-plain',
            `container: at least {} x plain appends with a sync each`,
            0.7,
          ),
        ],
        run: (context) => measureWriting(context, plan),
      },
      starting: {
        goals: [
          atMost(
            'start.ready.1m',
            `ready within {} s with ${files} files, staged or merged (the slower)`,
            2,
            greatestOf(STATES.map((state) => `start.${state}.ready`)),
          ),
          atMost(
            'start.memory.1m',
            `at most {} MiB when ready with ${files} files, staged or merged (the greater)`,
            200,
            greatestOf(STATES.map((state) => `start.${state}.memory`)),
          ),
        ],
        run: (context) => measureStarting(context, plan),
      },
      costs: {
        goals: ['put', 'get', 'delete'].map((operation) =>
          atMost(
            `cost.${operation}.ratio`,
            `${operation} with ${count(plan.largeRows)} files: at most {} x its cost with ${count(SMALL_ROWS)}`,
            1.3,
          ),
        ),
        run: (context) => measureCosts(context, plan),
      },
    };
  },
};
