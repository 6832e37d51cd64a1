import type { BenchmarkContext } from '../harness/benchmark.js';
import { addRatios, measure } from './measuring.js';
import type { NodesOfSettings } from './nodes.js';
import { type Plan, THREADS } from './plan.js';
import { DISKS, SETTINGS } from './settings.js';

/** Figure 9: throughput over the number of nodes, each with files, cache and (if slowed) disk of its own. */
export async function measureNodeCounts(
  context: BenchmarkContext,
  plan: Plan,
  nodes: NodesOfSettings,
): Promise<void> {
  for (let run = 1; run <= plan.runs; run += 1) {
    for (const disk of DISKS) {
      context.progress(`nodes, ${disk} disk, run ${run} of ${plan.runs}`);
      for (const count of plan.nodes) {
        const at = `n${count}`;
        const how = { threads: THREADS * count, mixed: false, run, nodes: count };
        for (const setting of SETTINGS) {
          const point = { series: 'nodes', disk, setting, at } as const;
          await measure(context, plan, nodes[setting], point, how);
        }
        addRatios(context, { series: 'nodes', disk, at });
      }
    }
  }
}
