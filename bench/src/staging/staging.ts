import type { Benchmark } from '../harness/benchmark.js';
import { atMost, greatestOf } from '../harness/goals.js';
import { count } from '../harness/markdown.js';
import { measureCosts } from './costs.js';
import { PLANS, SMALL_ROWS } from './plan.js';
import { measureStarting, STATES } from './starting.js';

/**
 * Staging: starts with many files, and what an operation costs in a small and in a large FileMap.
 */

export const staging: Benchmark = {
  durability: 'sync; os where costs are compared',
  introduce({ scale }) {
    const { runs, costRuns } = PLANS[scale];
    return [
      `${runs} runs (costs: ${costRuns}), variants in turns, every measurement in a process of its own. Ratios are those of one run, then their median. MB are 10^6 bytes.`,
      'Starts: the default configuration, embedded node included, in a directory that a killed process left; FileMap and container are in the page cache. Memory is the resident set of the whole process.',
      'Costs: Staging, 64 operations at a time, random merged files in trunks of 2,000, durability `os`, so that no sync hides the FileMap; *find* is the FileMap’s look-up alone.',
    ].join('\n');
  },
  parts: (scale) => {
    const plan = PLANS[scale];
    const files = count(plan.startFiles);
    return {
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
