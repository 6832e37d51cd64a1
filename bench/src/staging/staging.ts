import { type Benchmark, type BenchmarkContext, remarkOn } from '../harness/benchmark.js';
import { measureCosts } from './costs.js';
import { costGoals, startingGoals, WRITING_GOALS } from './goals.js';
import { showCosts, showStarting, showWriting } from './output.js';
import { IN_FLIGHT, PLANS } from './plan.js';
import { measureStarting } from './starting.js';
import { measureWriting } from './writing.js';

/**
 * Staging: starts with many files, what an operation costs in a small and in a large
 * FileMap, and what durability costs.
 */
export const staging: Benchmark = {
  durability: 'sync; os where it is named, and where costs are compared',
  introduce,
  parts: (scale) => {
    const plan = PLANS[scale];
    return {
      writing: {
        goals: WRITING_GOALS,
        run: async (context) => {
          await measureWriting(context, plan);
          showWriting(context);
        },
      },
      starting: {
        goals: startingGoals(plan),
        run: async (context) => {
          await measureStarting(context, plan);
          showStarting(context, plan);
        },
      },
      costs: {
        goals: costGoals(plan),
        run: async (context) => {
          await measureCosts(context, plan);
          showCosts(context, plan);
        },
      },
    };
  },
};

function introduce({ scale }: BenchmarkContext): string {
  const plan = PLANS[scale];
  return [
    `${plan.runs} runs${remarkOn(scale)} (costs: ${plan.costRuns}), variants in turns, every measurement in a process of its own. Ratios are those of one run, then their median. MB are 10^6 bytes.`,
    `Uploads: \`open()\` with its embedded node, ${IN_FLIGHT} at a time, nothing is merged meanwhile. Container: Staging alone; the plain loop appends exactly the batches that the container wrote, and syncs each.`,
    'Starts: the default configuration, embedded node included, in a directory that a killed process left; FileMap and container are in the page cache. Memory is the resident set of the whole process.',
    `Costs: Staging, ${IN_FLIGHT} operations at a time, random merged files in trunks of 2,000, durability \`os\`, so that no sync hides the FileMap; *find* is the FileMap's look-up alone.`,
  ].join('\n');
}
