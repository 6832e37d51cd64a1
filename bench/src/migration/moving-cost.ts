import { FastdfsClient } from '@stevedore/fastdfs';
import type { TierOptions } from '@stevedore/tiering';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { atMost, type Goal, greatestOf } from '../harness/goals.js';
import { until } from '../harness/load.js';
import { mean } from '../harness/statistics.js';
import { Groups } from './groups.js';
import type { Plan } from './plan.js';

/**
 * Figure 6: what a write costs that makes a file outgrow its threshold of 1 MiB, over
 * the size of the write. Files are filled to the last write of that size which still
 * fits their rows; the next one is measured. A tracker, a plain storage as the group to
 * move to and a storage for each way, each a process of its own; the client is this process.
 */

const KIB = 1024;
const THRESHOLD_BYTES = 1024 * KIB;
const TARGET_GROUP = 'target';

const ACCESS_KIB = [4, 16, 64, 256, 1024, 4096] as const;
const WAYS = ['none', 'here', 'away'] as const;
type Way = (typeof WAYS)[number];

const WAY_TEXTS: Readonly<Record<Way, string>> = {
  none: 'No migration: the row holds it',
  here: 'It becomes a file of the storage',
  away: 'It goes on to another group',
};

const FIXED = { enabled: true, migrates: false, thresholdBytes: THRESHOLD_BYTES } as const;
const TIERS: Readonly<Record<Way, TierOptions>> = {
  none: {
    ...FIXED,
    thresholdBytes: 16 * THRESHOLD_BYTES,
    parameters: { maximumThresholdBytes: 16 * THRESHOLD_BYTES },
  },
  here: FIXED,
  away: { ...FIXED, moveTo: TARGET_GROUP },
};

/** Its writer does not wait for a file to get to another group. */
const MAX_COST_RATIO = 1.5;

export const COST_GOALS: readonly Goal[] = [
  atMost(
    'cost.away.vs-here',
    `a write that makes a file go to another group costs at most ${MAX_COST_RATIO} x one that makes it a file of the storage, at every size (the worst)`,
    MAX_COST_RATIO,
    greatestOf(ACCESS_KIB.map((access) => `cost.away.a${access}.vs-here`)),
  ),
];

export async function measureMovingCost(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, progress, print, table, chart } = context;
  await using groups = await Groups.start(context, { [TARGET_GROUP]: {}, ...TIERS });
  await using client = new FastdfsClient({ trackers: [groups.tracker] });
  for (let run = 0; run < plan.processRuns; run += 1) {
    for (const access of ACCESS_KIB) {
      progress(`cost of a migration, writes of ${access} KiB, run ${run + 1}`);
      const accessBytes = access * KIB;
      // The last write of its size that its row still holds has been made.
      const filled = Math.floor(THRESHOLD_BYTES / accessBytes) * accessBytes;
      const files = new Map<Way, string[]>();
      for (const way of WAYS) files.set(way, await fill(client, way, filled, plan.costFiles));
      const costs: Record<Way, number[]> = { none: [], here: [], away: [] };
      // One file of each way after the other: what slows the machine for a while slows all.
      for (let turn = 0; turn < plan.costFiles; turn += 1) {
        for (const way of beginningWith(run + turn)) {
          const bytes = pattern(filled + accessBytes).subarray(filled);
          const start = performance.now();
          await client.append(files.get(way)![turn]!, bytes);
          costs[way].push(performance.now() - start);
        }
      }
      await until('the files have gone', async () => {
        const { queued, remote } = await groups.storage('away').call('migration');
        return queued === 0 && remote.files === plan.costFiles;
      });
      for (const way of WAYS) {
        figures.add(`cost.${way}.a${access}`, 'ms', mean(costs[way]));
        for (const [turn, cost] of costs[way].entries()) {
          figures.add(`cost.${way}.a${access}.vs-here`, 'times', cost / costs.here[turn]!);
        }
        await checkAndDelete(client, files.get(way)!, filled + accessBytes);
      }
    }
  }
  const title = 'Figure 6: cost of a write that makes a file migrate';
  const labels = ACCESS_KIB.map((kib) => (kib < KIB ? `${kib} KiB` : `${kib / KIB} MiB`));
  print(`## ${title}`);
  table('cost', {
    head: 'Milliseconds',
    rows: WAYS.map((way) => [WAY_TEXTS[way], `cost.${way}`]),
    columns: ACCESS_KIB.map((access, at) => [labels[at] ?? '', `a${access}`]),
  });
  print(
    'The paper shows this as a chart without numbers. There the writer waits until the file has got to the I/O servers, which passive migration and two schemes make shorter.\n\nOurs: threshold 1 MiB, everything synced, all processes on one machine. The write makes the file one of the storage; it goes on to the other group afterwards, and nobody waits for that. With accesses of 4 MiB the file is empty before.',
  );
  await chart('cost', {
    ...{ title, xTitle: 'Size of the write', yTitle: 'Milliseconds', labels },
    series: WAYS.map((way) => ({
      name: WAY_TEXTS[way],
      values: ACCESS_KIB.map((access) => `cost.${way}.a${access}`),
    })),
  });
}

/** Each turn begins with another way. */
function beginningWith(turn: number): readonly Way[] {
  const first = turn % WAYS.length;
  return [...WAYS.slice(first), ...WAYS.slice(0, first)];
}

async function fill(
  client: FastdfsClient,
  group: string,
  bytes: number,
  count: number,
): Promise<string[]> {
  const files: string[] = [];
  for (let file = 0; file < count; file += 1) {
    files.push(await client.uploadAppender(pattern(bytes), { extension: 'dat', group }));
  }
  return files;
}

async function checkAndDelete(
  client: FastdfsClient,
  files: readonly string[],
  bytes: number,
): Promise<void> {
  for (const file of files) {
    const found = await client.downloadBytes(file);
    if (!found.equals(pattern(bytes))) throw new Error(`${file} has other bytes`);
    await client.delete(file);
  }
}

const PATTERN = Buffer.from(
  Array.from({ length: 6 * KIB * KIB }, (_, index) => (index * 31 + (index >> 12)) % 251),
);

function pattern(bytes: number): Buffer {
  return PATTERN.subarray(0, bytes);
}
