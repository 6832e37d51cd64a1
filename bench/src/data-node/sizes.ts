import type { BenchmarkContext } from '../harness/benchmark.js';
import type { Child } from '../harness/child.js';
import type { LoadHandlers } from './load-process.js';
import { figureId, measure } from './measuring.js';
import { Nodes, type StoredLayouts } from './nodes.js';
import { type Plan, THREADS } from './plan.js';
import { cacheOptionsOf, DISKS, type DiskKind, type Setting } from './settings.js';

/** Figure 7: the gain over the size of the cache, one node, reads alone. */

export const SIZED = ['page-cache', 'cache', 'both'] as const;

interface Sized {
  readonly setting: Setting;
  readonly mebibytes: number;
  readonly nodes: Nodes;
}

export function sizeOf(mebibytes: number): string {
  return `${mebibytes}MiB`;
}

export async function measureSizes(
  context: BenchmarkContext,
  plan: Plan,
  load: Child<LoadHandlers>,
  stored: StoredLayouts,
): Promise<void> {
  const all: Sized[] = [];
  const start = async (setting: Setting, mebibytes: number): Promise<void> => {
    context.progress(`a cache of ${mebibytes} MiB is filled (${setting})`);
    const cache = cacheOptionsOf(setting, mebibytes * 2 ** 20);
    const nodes = await Nodes.start(context, load, [stored], setting, cache);
    all.push({ setting, mebibytes, nodes });
    // A large cache takes more requests to be what it will be.
    if (mebibytes > 0) await nodes.warmUp(plan, Math.max(1, mebibytes / 64));
  };
  try {
    await start('neither', 0);
    for (const mebibytes of plan.cacheMebibytes) {
      for (const setting of SIZED) await start(setting, mebibytes);
    }
    for (let run = 1; run <= plan.runs; run += 1) {
      context.progress(`cache sizes, run ${run} of ${plan.runs}`);
      for (const disk of DISKS) {
        for (const { setting, mebibytes, nodes } of all) {
          const point = { series: 'size', disk, setting, at: sizeOf(mebibytes) } as const;
          const how = { threads: THREADS, mixed: false, run };
          await measure(context, plan, nodes, point, how);
          if (setting !== 'neither') addGain(context, disk, setting, mebibytes);
        }
      }
    }
  } finally {
    for (const { nodes } of all) await nodes[Symbol.asyncDispose]();
  }
}

/** Over `neither` in the same run. */
function addGain(
  { figures }: BenchmarkContext,
  disk: DiskKind,
  setting: Setting,
  mebibytes: number,
): void {
  const id = (which: Setting, size: number, what: string): string =>
    figureId({ series: 'size', disk, setting: which, at: sizeOf(size) }, what);
  const last = (which: Setting, size: number): number =>
    figures.values(id(which, size, 'requests')).at(-1)!;
  const ratio = last(setting, mebibytes) / last('neither', 0);
  figures.add(id(setting, mebibytes, 'vs-neither'), 'times', ratio);
}
