import type { TierOptions } from '@stevedore/tiering';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { atMost, type Goal, greatestOf } from '../harness/goals.js';
import { start } from '../harness/processes.js';
import { TARGET_GROUP, WAYS, type Way } from './moving-cost-model.js';
import type { Plan } from './plan.js';

/**
 * Figure 6: what a write costs that makes a file outgrow its threshold of 1 MiB, over the size of the
 * write: until the writer has its answer, and until the file has moved. Files are filled to the last
 * write of that size which still fits their rows; the next one is measured. On modelled disks.
 */

const KIB = 1024;
const THRESHOLD_BYTES = 1024 * KIB;
const ACCESS_KIB = [4, 16, 64, 256, 1024, 4096] as const;
const FIXED = { enabled: true, migrates: false, thresholdBytes: THRESHOLD_BYTES } as const;
const TIERS: Readonly<Record<string, TierOptions>> = {
  [TARGET_GROUP]: {},
  none: {
    ...FIXED,
    thresholdBytes: 16 * THRESHOLD_BYTES,
    parameters: { maximumThresholdBytes: 16 * THRESHOLD_BYTES },
  },
  here: FIXED,
  away: { ...FIXED, moveTo: TARGET_GROUP },
};

const ROWS = [
  ['No migration: the row holds it', 'none', 'own'],
  ['It becomes a file of the storage', 'here', 'own'],
  ['It goes on to another group: the writer', 'away', 'own'],
  ['It goes on: until it is there (whom active migration keeps waiting)', 'away', 'end'],
  ['Passive migration, as the paper has it', 'passive', 'own'],
  ['The same, its target made ahead', 'ahead', 'own'],
] as const;

const idOf = (way: Way, access: number) => `cost.${way}.a${access}`;
const worst = (what: string) =>
  greatestOf(ACCESS_KIB.map((access) => `${idOf('away', access)}.${what}`));

export const COST_GOALS: readonly Goal[] = [
  atMost(
    'cost.away.own-vs-passive',
    `figure 6: the writer waits at most {} x as long as with passive migration and a target made ahead, at every size (the worst)`,
    1,
    worst('own-vs-ahead'),
  ),
  atMost(
    'cost.away.end-vs-passive',
    `and the file is there after at most {} x the time that passive migration takes (the worst)`,
    1.5,
    worst('end-vs-passive'),
  ),
];

export async function measureMovingCost(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, workspace, progress, print, table, chart } = context;
  await using model = start('migration/model');
  await model.call('start', workspace.fresh('cost'), TIERS);
  for (const access of ACCESS_KIB) {
    progress(`cost of a migration, writes of ${access} KiB`);
    const accessBytes = access * KIB;
    // The last write of its size that its row still holds has been made.
    const filledBytes = Math.floor(THRESHOLD_BYTES / accessBytes) * accessBytes;
    const sizes = { accessBytes, filledBytes, files: plan.costFiles };
    for (const way of WAYS) {
      for (const { ownMs, endMs } of await model.call('costsOf', { ...sizes, way })) {
        figures.addAll(idOf(way, access), { own: [ownMs, 'ms'], end: [endMs, 'ms'] });
      }
    }
    const median = (way: Way, what: string) => figures.median(`${idOf(way, access)}.${what}`);
    const away = idOf('away', access);
    figures.add(`${away}.own-vs-ahead`, 'times', median('away', 'own') / median('ahead', 'own'));
    figures.add(
      `${away}.end-vs-passive`,
      'times',
      median('away', 'end') / median('passive', 'own'),
    );
  }
  const title = 'Figure 6: cost of a write that makes a file migrate';
  const labels = ACCESS_KIB.map((kib) => (kib < KIB ? `${kib} KiB` : `${kib / KIB} MiB`));
  print(`## ${title}, on modelled disks`);
  table('cost', {
    head: 'Milliseconds',
    rows: ROWS.map(([text, way, what]) => [text, `${way}.${what}`] as const),
    columns: ACCESS_KIB.map((access, at) => [labels[at] ?? '', String(access)]),
    id: (row, access) => {
      const [way, what] = row.split('.') as [Way, string];
      return `${idOf(way, Number(access))}.${what}`;
    },
  });
  print(
    'The paper shows this as a chart without numbers, of writes from 4 KB to 4 MB at a threshold of 1 MB: passive migration and latency hiding are shorter than its baseline, an active migration without them. Ours: the write makes the file one of the storage; it goes on to the other group afterwards, and nobody waits. Everything is synced. With writes of 4 MiB the file is empty before. The network takes no time here: at 1 Gbit/s passive migration saves another 8 ms for each MiB written.',
  );
  chart('cost', {
    ...{ title, xTitle: 'Size of the write', yTitle: 'Milliseconds', labels },
    series: ROWS.map(([name, way, what]) => ({
      name,
      values: ACCESS_KIB.map((access) => `${idOf(way, access)}.${what}`),
    })),
  });
}
