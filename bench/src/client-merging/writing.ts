import type { BenchmarkContext } from '../harness/benchmark.js';
import { withCpuOf } from '../harness/child.js';
import { atLeast, atMost, type Goal, leastOf } from '../harness/goals.js';
import type { Span } from '../harness/load.js';
import { type Column, middle, percent, spread } from '../harness/markdown.js';
import { start } from '../harness/processes.js';
import { type NamedServer, trackersOf } from '../servers/kinds.js';
import {
  CONCURRENCIES,
  isThere,
  type LoadCost,
  PAPER,
  type Plan,
  SEED,
  sound,
  type Where,
  type WriteSeries,
} from './plan.js';

/**
 * Table 1: uploads directly, and through the SDK, in turns. Every measurement has processes
 * and directories of its own. One pass of the SDK gives two figures: acknowledged
 * (while trunks are merged and sent beside) and stored (the clock goes on until all
 * is merged and confirmed).
 */

interface Variant {
  readonly merges: boolean;
  readonly where: Where;
  /** Names of its figures, and of their columns. */
  readonly steps: readonly (readonly [step: string, title: string])[];
}

const stored = (where: Where, on: string): Variant['steps'] => [
  [`${where}.acknowledged`, `client merging, acknowledged, ${on}`],
  [`${where}.stored`, `client merging, stored, ${on}`],
];
const direct = (where: Where, title: string): Variant => ({
  ...{ merges: false, where, steps: [[`${where}.direct`, title]] },
});
const VARIANTS: readonly Variant[] = [
  direct('ours', 'no merging, our storage'),
  { merges: true, where: 'ours', steps: stored('ours', 'our storage') },
  direct('fastdfs', 'no merging, FastDFS'),
  direct('fastdfs-trunk', "FastDFS's own merging"),
  { merges: true, where: 'fastdfs', steps: stored('fastdfs', 'FastDFS') },
];

/** What `stored` on one cluster is compared with. */
const COMPARED: readonly (readonly [of: Where, beside: Where])[] = [
  ['ours', 'ours'],
  ['fastdfs', 'fastdfs'],
  ['fastdfs', 'fastdfs-trunk'],
  ['ours', 'fastdfs-trunk'],
];

export function writeGoals(
  { id, title, concurrencies }: WriteSeries,
  servers: readonly NamedServer[],
): readonly Goal[] {
  const where = isThere('fastdfs', servers) ? 'fastdfs' : 'ours';
  const fall = atMost(
    `write.${id}.${where}.fall`,
    `${title}: stored files a second fall by at most {} % from the fewest to the most at a time`,
    5,
  );
  if (!isThere('fastdfs-trunk', servers)) return [fall];
  const ids = concurrencies.map((c) => `write.${id}.c${c}.${where}.vs-fastdfs-trunk`);
  return [
    atLeast(
      `write.${id}.own-merging`,
      `${title}: stored at least {} x as fast as with FastDFS's own merging`,
      1.52,
      leastOf(ids),
    ),
    fall,
  ];
}

const CHECKED_FILES = 25;
const WARM_UP_CONCURRENCY = 20;

export async function measureWriting(
  context: BenchmarkContext,
  series: WriteSeries,
  plan: Plan,
  cost: LoadCost,
): Promise<void> {
  const { figures, servers, progress, workspace } = context;
  const { id, concurrencies } = series;
  const measure = async ({ merges, where }: Variant, concurrency: number, at: string) => {
    const [nodeDirectory, directory] = [workspace.fresh('node'), workspace.fresh('staging')];
    try {
      await using webServer = start('client/storing');
      await using node = where === 'ours' ? start('harness/nodes') : undefined;
      const { bytes: totalBytes, directSeconds: maxSeconds } = series;
      await webServer.call('prepare', { ...series.files, seed: SEED, totalBytes });
      const own = await node?.call('group', nodeDirectory, series.storages);
      const trackers = own === undefined ? (trackersOf(where, servers) ?? []) : [own];
      const target = { trackers, connections: concurrency };
      const sdk = { client: 'sdk', directory, keeps: 'default', bytes: totalBytes } as const;
      await webServer.call('open', { ...target, ...(merges ? sdk : { client: 'stevedore' }) });
      const warmUp = { operations: plan.warmUpFiles, concurrency: WARM_UP_CONCURRENCY };
      sound(await webServer.call('upload', warmUp));
      const load = { concurrency, ...(!merges && maxSeconds !== undefined && { maxSeconds }) };
      const [result, storageSeconds] = await withCpuOf(node, () =>
        webServer.call('fill', load, CHECKED_FILES),
      );
      if (where !== 'ours') await webServer.call('removeAll');
      await webServer.call('close');
      const { operations, bytes, stored, ...acknowledged } = sound(result);
      const add = (step: string, { seconds, cpuSeconds }: Span) =>
        figures.addAll(`${at}.${where}.${step}`, {
          MBps: [bytes / 1e6 / seconds, 'MB/s'],
          uploads: [operations / seconds, 'uploads/s'],
          cpu: [cpuSeconds / seconds, 'cores'],
          load: [(cost.perUpload * operations) / cpuSeconds, 'share'],
        });
      if (merges) add('acknowledged', acknowledged);
      const step = merges ? 'stored' : 'direct';
      add(step, stored);
      const storage = storageSeconds && storageSeconds / stored.seconds;
      figures.addAll(`${at}.${where}.${step}`, { storage: [storage, 'cores'] });
    } finally {
      await workspace.remove(nodeDirectory);
      await workspace.remove(directory);
    }
  };
  const variants = VARIANTS.filter(({ where }) => isThere(where, servers));
  await context.runs(`uploads, ${id}`, series.runs, async () => {
    for (const concurrency of concurrencies) {
      progress(`${concurrency} uploads at a time`);
      const at = `write.${id}.c${concurrency}`;
      for (const variant of variants) {
        await measure(variant, concurrency, at);
      }
      // Of this run: what slows the machine for a while slows both.
      for (const [of, beside] of COMPARED) {
        const to = `${at}.${beside}.direct.MBps`;
        figures.addRatio(`${at}.${of}.vs-${beside}`, `${at}.${of}.stored.MBps`, to);
      }
    }
    for (const where of ['ours', 'fastdfs']) {
      const of = (c: number | undefined) => `write.${id}.c${c}.${where}.stored.MBps`;
      const [fewest, most] = [of(concurrencies.at(0)), of(concurrencies.at(-1))];
      if (!figures.has(most)) continue;
      const fall = 100 * (1 - figures.last(most) / figures.last(fewest));
      figures.add(`write.${id}.${where}.fall`, 'percent', fall);
    }
  });
  show(context, series, variants);
}

function show(
  { print, table }: BenchmarkContext,
  { id, title, concurrencies }: WriteSeries,
  variants: readonly Variant[],
): void {
  const steps = variants.flatMap((each) => each.steps);
  const head = 'At a time';
  const rows = concurrencies.map((c) => [String(c), `write.${id}.c${c}`] as const);
  const columns = (what: string, format = spread) =>
    steps.map(([step, name]): Column => [name, `${step}.${what}`, format]);
  print(`## Uploads: ${title}\n\nMB/s, median (least–greatest):`);
  table(`write-${id}`, {
    ...{ head, rows, columns: columns('MBps') },
    chart: { title: `${title}, MB/s`, yTitle: 'MB/s' },
  });
  print('Uploads/s:');
  table(`write-${id}-uploads`, { head, rows, columns: columns('uploads') });
  print('Stored by client merging, times the other; in the paper:');
  const paper = (beside: 'direct' | 'own', c: number) => {
    const at = CONCURRENCIES.indexOf(c);
    const [merging = 0, other = 1] = [PAPER.write.merging[at], PAPER.write[beside][at]];
    return (merging / other).toFixed(2);
  };
  table(`write-${id}-ratios`, {
    head,
    rows,
    columns: COMPARED.filter(([of]) => variants.some(({ where }) => where === of)).map(
      ([of, beside]): Column => [`${of} to ${beside}`, `${of}.vs-${beside}`],
    ),
    known: [
      ['paper, to no merging', concurrencies.map((c) => paper('direct', c)).join(', ')],
      ['paper, to own merging', concurrencies.map((c) => paper('own', c)).join(', ')],
    ],
  });
  print(
    'CPU of the web server, in cores; of it the load, that finds its files and calls; CPU of our storages:',
  );
  table(`write-${id}-cpu`, {
    head,
    rows,
    columns: [
      ...columns('cpu', middle),
      ...columns('load', percent),
      ...columns('storage', middle),
    ],
  });
}
