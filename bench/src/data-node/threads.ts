import type { BenchmarkContext } from '../harness/benchmark.js';
import { addRatios, measure } from './measuring.js';
import type { NodesOfSettings } from './nodes.js';
import type { Plan } from './plan.js';
import { DISKS, SETTINGS } from './settings.js';

/** Figures 6 and 8: throughput over threads, reads alone and mixed with writes, one node. */
export async function measureThreads(
  context: BenchmarkContext,
  plan: Plan,
  nodes: NodesOfSettings,
): Promise<void> {
  for (let run = 1; run <= plan.runs; run += 1) {
    for (const disk of DISKS) {
      context.progress(`threads, ${disk} disk, run ${run} of ${plan.runs}`);
      for (const series of ['read', 'mixed'] as const) {
        for (const threads of plan.threads) {
          const at = `t${threads}`;
          const how = { threads, mixed: series === 'mixed', run, nodes: 1 };
          for (const setting of SETTINGS) {
            const point = { series, disk, setting, at };
            await measure(context, plan, nodes[setting], point, how);
          }
          addRatios(context, { series, disk, at });
        }
      }
    }
  }
}
