import type { Benchmark, BenchmarkContext } from '../harness/benchmark.js';
import { atMost } from '../harness/goals.js';
import { start } from '../harness/processes.js';
import { BYTES_PER_MS, SEEK_MS } from '../harness/slow-disk.js';
import { nodeSize } from './node-size.js';
import { CACHE_BYTES, PLANS, type Plan } from './plan.js';
import { measureThroughput, throughputGoals } from './throughput.js';

/**
 * The data node: what the cache of whole files and the co-location of files that are
 * read together are worth, after the paper's figures 6 to 9.
 */
export const dataNode: Benchmark = {
  durability: 'sync: a write of the mixed load is on the disk before it is answered',
  introduce({ scale }) {
    const { runs, dataBytes } = PLANS[scale];
    const cache = CACHE_BYTES / 2 ** 20;
    return [
      `${runs} runs, settings in turns, each node and the load in a process of its own. Ratios are those of one run, then their median.`,
      `Files: log-uniform from 5 to 50 KB (about 20 on average) in groups of 4 to 12, ${Math.round(dataBytes / 1e6)} MB on a node. A thread chooses a group (Zipf, exponent 0.8) and asks for nine in ten of its members, one after the other.`,
      `Settings, all with ${cache} MiB of memory for files: *neither* has it as the page cache below the storage, and no file's group is known. *cache*: as our cache of whole files. *co-location*: files came with \`put({ group })\`, the Merge Task packed them, and a group is read at once; what was read along waits in 8 MiB until it is asked for, the rest is page cache. *both*: both. *direct*: both, but files came with \`mode: 'direct'\`, the paper's buffer of 4 MB, without a container.`,
      `Disks: *measured* is this machine's, read past the system's own page cache (O_DIRECT). *slowed* is the same with a model of one 7,200 rpm drive: ${SEEK_MS} ms for a request that does not follow the last one, ${BYTES_PER_MS / 1000} MB/s, one at a time, in order; a sync ${SEEK_MS} ms. Caches are filled before, without the delays.`,
      'The page cache is not bounded by a cgroup, which does not say what it missed and so cannot be slowed. The benchmark decides by least recent use which pages of 4 KiB are in memory; reads of those are the real buffered ones, all others are reads of the disk.',
    ].join('\n');
  },
  parts: (scale) => ({
    'look-ups': {
      goals: [atMost('look-up.filter.hit', 'filter and map: at most {} µs a read', 1)],
      run: (context) => measureLookUps(context, PLANS[scale]),
    },
    throughput: {
      goals: throughputGoals(PLANS[scale]),
      run: (context) => measureThroughput(context, PLANS[scale]),
    },
    'node-size': nodeSize(scale),
  }),
};

/** What a look in the cache costs, with the filter in front and without. */
async function measureLookUps(
  { figures, runs, print, table }: BenchmarkContext,
  plan: Plan,
): Promise<void> {
  await runs('look-ups', plan.runs, async () => {
    for (const filter of [true, false]) {
      for (const found of [true, false]) {
        await using child = start('data-node/look-up');
        const id = `look-up.${filter ? 'filter' : 'map'}.${found ? 'hit' : 'miss'}`;
        figures.add(id, 'µs', await child.call('measure', filter, found, plan.lookUps));
      }
    }
  });
  print(
    '## A look in the cache\n\nCPU time in µs, median (least–greatest), counting the request for admission included:',
  );
  table('look-ups', {
    head: '',
    rows: [
      ['filter, then map', 'look-up.filter'],
      ['map alone', 'look-up.map'],
    ],
    columns: [
      ['Found', 'hit'],
      ['Not found', 'miss'],
    ],
  });
}
