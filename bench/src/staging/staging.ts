import type { Benchmark, BenchmarkContext } from '../harness/benchmark.js';
import { measureCosts } from './costs.js';
import { addStagingGoals } from './goals.js';
import { showCosts, showStarting, showWriting } from './output.js';
import { FULL, IN_FLIGHT, type Plan, QUICK } from './plan.js';
import { measureStarting } from './starting.js';
import { measureWriting } from './writing.js';

/**
 * Staging: starts with many files, what an operation costs in a small and in a large
 * FileMap, and what durability costs.
 */
export const staging: Benchmark = {
  durability: 'sync; os where it is named, and where costs are compared',
  async run(context) {
    const plan = context.quick ? QUICK : FULL;
    introduce(context, plan);
    await measureWriting(context, plan);
    showWriting(context);
    await measureStarting(context, plan);
    showStarting(context, plan);
    await measureCosts(context, plan);
    showCosts(context, plan);
    addStagingGoals(context.figures, plan);
  },
};

function introduce({ print, quick }: BenchmarkContext, plan: Plan): void {
  print(
    [
      `${plan.runs} runs${quick ? ' (quick: rough figures, fewer files)' : ''} (costs: ${plan.costRuns}), variants in turns, every measurement in a process of its own. Ratios are those of one run, then their median. MB are 10^6 bytes.`,
      `Uploads: \`open()\` with its embedded node, ${IN_FLIGHT} at a time, nothing is merged meanwhile. Container: Staging alone; the plain loop appends exactly the batches that the container wrote, and syncs each.`,
      'Starts: the default configuration, embedded node included, in a directory that a killed process left; FileMap and container are in the page cache. Memory is the resident set of the whole process.',
      `Costs: Staging, ${IN_FLIGHT} operations at a time, random merged files in trunks of 2,000, durability \`os\`, so that no sync hides the FileMap; *find* is the FileMap's look-up alone.`,
    ].join('\n'),
  );
}
