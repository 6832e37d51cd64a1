import type { Benchmark, BenchmarkContext } from '../harness/benchmark.js';
import { atMost } from '../harness/goals.js';
import { SEEK_MS } from '../harness/hard-disk.js';
import { start } from '../harness/processes.js';
import { MEMORY_BYTES, MIB, PLANS, type Plan } from './plan.js';
import { MEASURED_GOALS, measureThroughput, modelGoals, modelThroughput } from './throughput.js';

/**
 * The data node: what the cache of whole files and the co-location of files that are
 * read together are worth, after the paper's figures 6 to 9.
 */
export const dataNode: Benchmark = {
  durability: 'sync: a write of the mixed load is on the disk before it is answered',
  introduce({ scale }) {
    const { modelRuns, dataBytes } = PLANS[scale];
    const memory = MEMORY_BYTES / MIB;
    return [
      `Files: log-uniform from 5 to 50 KB (about 20 on average) in groups of 4 to 12, ${Math.round(dataBytes / 1e6)} MB on a node. A thread chooses a group (Zipf, exponent 0.8) and asks for nine in ten of its members, one after the other.`,
      `Settings, all with ${memory} MiB of memory for files. The paper's: *neither* has it as the page cache below the storage, which fetches blocks of 128 KiB, and no file's group is known; *cache*: as a cache of whole files, its list by last request (\`--cache-policy lru\`); *co-location*: files came with \`put({ group })\`, the Merge Task packed them, with the page cache of *neither*; *both*. Ours: *neither, pages*: the page cache fetches the pages that are asked for, as Linux does for reads at random places; *cache, ours*: admission by requests; *co-location, ours*: a group is read at once, and waits in 8 MiB until it is asked for; *both, ours*; *direct*: the same, but files came with \`mode: 'direct'\`, the paper's buffer of 4 MB.`,
      `The model: ${modelRuns} runs with seeds of their own, in virtual time. Each node has a 7,200 rpm drive (${SEEK_MS} ms for a request that does not follow the last one, 100 MB/s, one at a time, in order; a sync ${SEEK_MS} ms), and 0.1 ms of a processor and a wire of 1 Gbit/s for each request.`,
    ].join('\n');
  },
  parts: (scale) => ({
    'look-ups': {
      goals: [atMost('look-up.filter.hit', 'filter and map: at most {} µs a read', 1)],
      run: (context) => measureLookUps(context, PLANS[scale]),
    },
    model: {
      goals: modelGoals(PLANS[scale]),
      run: (context) => modelThroughput(context, PLANS[scale]),
    },
    measured: {
      goals: MEASURED_GOALS,
      run: (context) => measureThroughput(context, PLANS[scale]),
    },
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
