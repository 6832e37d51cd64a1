import { type Benchmark, type BenchmarkContext, remarkOn } from '../harness/benchmark.js';
import { throughputGoals } from './goals.js';
import { LOOK_UP_GOALS, measureLookUps, showLookUps } from './look-ups.js';
import { measureNodeCounts } from './node-counts.js';
import { nodeSize } from './node-size.js';
import { newLoad, type StoredLayouts, startSettings, storeData } from './nodes.js';
import { showSizes, showThroughput } from './output.js';
import { CACHE_BYTES, PLANS, type Plan, ZIPF_EXPONENT } from './plan.js';
import { measureSizes } from './sizes.js';
import { BYTES_PER_MS, SEEK_MS } from './slow-disk.js';
import { measureThreads } from './threads.js';

/**
 * The data node: what the cache of whole files and the co-location of files that are
 * read together are worth, after the paper's figures 6 to 9.
 */
export const dataNode: Benchmark = {
  durability: 'sync: a write of the mixed load is on the disk before it is answered',
  introduce,
  parts: (scale) => {
    const plan = PLANS[scale];
    return {
      'look-ups': {
        goals: LOOK_UP_GOALS,
        run: async (context) => {
          await measureLookUps(context, plan);
          showLookUps(context);
        },
      },
      throughput: {
        goals: throughputGoals(plan),
        run: (context) => measureThroughput(context, plan),
      },
      'node-size': nodeSize(scale),
    };
  },
};

/** Figures 6 to 9. */
async function measureThroughput(context: BenchmarkContext, plan: Plan): Promise<void> {
  await using load = newLoad();
  const stored: StoredLayouts[] = [];
  for (let node = 0; node < Math.max(...plan.nodes); node += 1) {
    stored.push(await storeData(context, plan, load, node));
  }
  const { nodes, stop } = await startSettings(context, plan, load, stored);
  try {
    const isDirect = await nodes.neither.isDirect();
    context.figures.add('disk.direct', 'yes', isDirect ? 1 : 0);
    await measureThreads(context, plan, nodes);
    await measureNodeCounts(context, plan, nodes);
  } finally {
    await stop();
  }
  await measureSizes(context, plan, load, stored[0]!);
  await showThroughput(context, plan);
  await showSizes(context, plan);
  tellHowRead(context);
}

function introduce({ scale }: BenchmarkContext): string {
  const plan = PLANS[scale];
  return [
    `${plan.runs} runs${remarkOn(scale)}, settings in turns, each node and the load in a process of its own. Ratios are those of one run, then their median.`,
    `Files: log-uniform from 5 to 50 KB (about 20 on average) in groups of 4 to 12, ${Math.round(plan.dataBytes / 1e6)} MB on a node. A thread chooses a group (Zipf, exponent ${ZIPF_EXPONENT}) and asks for nine in ten of its members, one after the other.`,
    `Settings: *neither* reads every file alone, scattered over the trunks. *page-cache*: the same with a page cache of ${CACHE_BYTES / 2 ** 20} MiB below the storage. *cache*: ${CACHE_BYTES / 2 ** 20} MiB of files. *co-location*: groups side by side, read at once; what was read along waits in 8 MiB until it is asked for, and nothing else is kept. *both*: both.`,
    `Disks: *measured* is this machine's, read past the page cache (O_DIRECT), so that every read that is not answered from the cache is one of the disk. *slowed* is the same with a delay model of one 7,200 rpm drive: ${SEEK_MS} ms for a request that does not follow the last one, ${BYTES_PER_MS / 1000} MB/s, one at a time, in order; a sync ${SEEK_MS} ms. Caches are filled before, without the delays.`,
    'The page cache is not bounded by a cgroup, which does not say what it missed and so cannot be slowed. The benchmark decides by least recent use which pages of 4 KiB are in memory; reads of those are the real buffered ones, all others are reads of the disk.',
  ].join('\n');
}

function tellHowRead({ figures, print }: BenchmarkContext): void {
  if (figures.summary('disk.direct').min === 1) return;
  print(
    'This system could not read past its page cache: the figures of the measured disk are those of memory.',
  );
}
