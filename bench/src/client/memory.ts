import type { BenchmarkContext } from '../harness/benchmark.js';
import { startClient } from './client-child.js';
import { GOAL_CONNECTIONS, type Plan, SIZES } from './plan.js';
import { startMemoryServer } from './servers.js';

/** Whether our client's memory stays flat: what it holds at 10, 50 and 100 % of many operations. */

export const MEMORY_PERCENTS = [10, 50, 100] as const;

export function memoryId(percent: number, what: 'heap' | 'rss' | 'external'): string {
  return `memory.p${percent}.${what}`;
}

export const GROWTH = 'memory.growth';

/** A file is uploaded, downloaded and deleted. */
const OPERATIONS_PER_CYCLE = 3;

export async function measureMemory(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 1; run <= plan.memoryRuns; run += 1) {
    context.progress(`memory, run ${run} of ${plan.memoryRuns}`);
    await measure(context, plan);
  }
}

async function measure({ figures }: BenchmarkContext, plan: Plan): Promise<void> {
  const size = SIZES[0];
  await using server = await startMemoryServer();
  await using child = await startClient('client', [size], ['--expose-gc']);
  const { trackers } = server;
  await child.call('open', { client: 'stevedore', trackers, connections: GOAL_CONNECTIONS });
  const all = Math.ceil(plan.memoryOperations / OPERATIONS_PER_CYCLE);
  const heaps: number[] = [];
  let done = 0;
  for (const percent of MEMORY_PERCENTS) {
    const cycles = Math.ceil((all * percent) / 100) - done;
    await child.call('cycle', { size: size.bytes, cycles, concurrency: GOAL_CONNECTIONS });
    done += cycles;
    const { heapBytes, rssBytes, externalBytes } = await child.call('memory', undefined);
    figures.add(memoryId(percent, 'heap'), 'MB', heapBytes / 1e6);
    figures.add(memoryId(percent, 'rss'), 'MB', rssBytes / 1e6);
    figures.add(memoryId(percent, 'external'), 'MB', externalBytes / 1e6);
    heaps.push(heapBytes);
  }
  figures.add(GROWTH, 'times', heaps.at(-1)! / heaps[0]!);
  await child.call('close', undefined);
}
