import type { BenchmarkContext } from '../harness/benchmark.js';
import { count } from '../harness/markdown.js';
import { Nodes } from '../harness/nodes.js';
import { GOAL_CONNECTIONS, type Plan, SIZES, startClient } from './plan.js';

const MEMORY_PERCENTS = [10, 50, 100] as const;
/** A file is uploaded, downloaded and deleted. */
const OPERATIONS_PER_CYCLE = 3;

/** Whether our client's memory stays flat: what it holds at 10, 50 and 100 % of many operations. */
export async function measureMemory(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, progress, print, table } = context;
  const { memoryOperations, memoryRuns } = plan;
  for (let run = 1; run <= memoryRuns; run += 1) {
    progress(`memory, run ${run} of ${memoryRuns}`);
    await using nodes = new Nodes();
    const trackers = await nodes.call('testCluster');
    await using child = await startClient([SIZES['1KB']], ['--expose-gc']);
    await child.call('open', { client: 'stevedore', trackers, connections: GOAL_CONNECTIONS });
    const all = Math.ceil(memoryOperations / OPERATIONS_PER_CYCLE);
    let done = 0;
    for (const percent of MEMORY_PERCENTS) {
      const cycles = Math.ceil((all * percent) / 100) - done;
      await child.call('cycle', { size: SIZES['1KB'], cycles, concurrency: GOAL_CONNECTIONS });
      done += cycles;
      const { heapUsed, rss, external } = await child.call('memory');
      figures.addAll(`memory.p${percent}`, {
        heap: [heapUsed / 1e6, 'MB'],
        rss: [rss / 1e6, 'MB'],
        external: [external / 1e6, 'MB'],
      });
    }
    figures.addRatio('memory.growth', 'memory.p100.heap', 'memory.p10.heap');
    await child.call('close');
  }
  print(
    `## Memory\n\nStevedore's client, ${count(memoryOperations)} uploads, downloads and deletes of 1 KB over ${GOAL_CONNECTIONS} connections in one process; MB after a forced collection (outside the heap are the bytes that are uploaded, too):`,
  );
  table('memory', {
    head: 'Operations done',
    rows: MEMORY_PERCENTS.map((percent) => [`${percent} %`, `memory.p${percent}`]),
    columns: [
      ['heap', 'heap'],
      ['outside the heap', 'external'],
      ['resident', 'rss'],
    ],
  });
}
