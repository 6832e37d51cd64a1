import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { atLeast, atMost, type Goal, leastOf } from '../harness/goals.js';
import type { Span } from '../harness/load.js';
import { type Column, middle, percent, spread } from '../harness/markdown.js';
import { Nodes } from '../harness/nodes.js';
import type { NamedServer } from '../servers/kinds.js';
import {
  CONCURRENCIES,
  isThere,
  PAPER,
  type Plan,
  SEED,
  trackersOf,
  type Where,
  type WriteSeries,
} from './plan.js';
import type { LoadCost, WebServerHandlers, WriteResult } from './web-server-process.js';

/**
 * Table 1: uploads directly, and through the SDK, in turns. Every measurement has processes
 * and directories of its own. One pass of the SDK gives two figures: acknowledged
 * (while trunks are merged and sent beside) and stored (the clock goes on until all
 * is merged and confirmed).
 */

interface Variant {
  readonly merges: boolean;
  readonly where: Where;
}

const VARIANTS: readonly Variant[] = [
  { merges: false, where: 'ours' },
  { merges: true, where: 'ours' },
  { merges: false, where: 'fastdfs' },
  { merges: false, where: 'fastdfs-trunk' },
  { merges: true, where: 'fastdfs' },
];

/** Names of the figures of a variant, and of their columns. */
function stepsOf({ merges, where }: Variant): readonly (readonly [step: string, title: string])[] {
  if (where === 'fastdfs-trunk') return [[`${where}.direct`, "FastDFS's own merging"]];
  const on = where === 'ours' ? 'our storage' : 'FastDFS';
  if (!merges) return [[`${where}.direct`, `no merging, ${on}`]];
  return [
    [`${where}.acknowledged`, `client merging, acknowledged, ${on}`],
    [`${where}.stored`, `client merging, stored, ${on}`],
  ];
}

/** What `stored` on one cluster is compared with. */
const COMPARED: readonly (readonly [of: Where, beside: Where])[] = [
  ['ours', 'ours'],
  ['fastdfs', 'fastdfs'],
  ['fastdfs', 'fastdfs-trunk'],
  ['ours', 'fastdfs-trunk'],
];

const STORED_TIMES = 1.52;
const MAX_FALL_PERCENT = 5;

export function writeGoals(
  { id, title, concurrencies }: WriteSeries,
  servers: readonly NamedServer[],
): readonly Goal[] {
  const where = isThere('fastdfs', servers) ? 'fastdfs' : 'ours';
  const fall = atMost(
    `write.${id}.${where}.fall`,
    `${title}: stored files a second fall by at most ${MAX_FALL_PERCENT} % from the fewest to the most at a time`,
    MAX_FALL_PERCENT,
  );
  if (!isThere('fastdfs-trunk', servers)) return [fall];
  const ids = concurrencies.map((c) => `write.${id}.c${c}.${where}.vs-fastdfs-trunk`);
  return [
    atLeast(
      `write.${id}.own-merging`,
      `${title}: stored at least ${STORED_TIMES} x as fast as with FastDFS's own merging`,
      STORED_TIMES,
      leastOf(ids),
    ),
    fall,
  ];
}

export async function measureWriting(
  context: BenchmarkContext,
  series: WriteSeries,
  plan: Plan,
  cost: LoadCost,
): Promise<void> {
  const { figures, servers, progress } = context;
  const { id, runs, concurrencies } = series;
  const variants = VARIANTS.filter(({ where }) => isThere(where, servers));
  for (let run = 1; run <= runs; run += 1) {
    for (const concurrency of concurrencies) {
      progress(`uploads, ${id}, run ${run} of ${runs}, concurrency ${concurrency}`);
      const at = `write.${id}.c${concurrency}`;
      for (const variant of variants) {
        await measure(context, { series, plan, variant, concurrency, cost, at });
      }
      // Of this run: what slows the machine for a while slows both.
      for (const [of, beside] of COMPARED) {
        const to = `${at}.${beside}.direct.MBps`;
        figures.addRatio(`${at}.${of}.vs-${beside}`, `${at}.${of}.stored.MBps`, to);
      }
    }
    for (const where of ['ours', 'fastdfs']) {
      const [fewest, most] = [concurrencies.at(0), concurrencies.at(-1)].map(
        (c) => `write.${id}.c${c}.${where}.stored.MBps`,
      ) as [string, string];
      if (!figures.has(most)) continue;
      const fall = 100 * (1 - figures.last(most) / figures.last(fewest));
      figures.add(`write.${id}.${where}.fall`, 'percent', fall);
    }
  }
  await show(context, series, variants);
}

interface Measurement {
  readonly series: WriteSeries;
  readonly plan: Plan;
  readonly variant: Variant;
  readonly concurrency: number;
  readonly cost: LoadCost;
  /** Begins the ids. */
  readonly at: string;
}

async function measure(
  { workspace, servers, figures }: BenchmarkContext,
  { series, plan, variant: { merges, where }, concurrency, cost, at }: Measurement,
): Promise<void> {
  const nodeDirectory = workspace.fresh('node');
  const directory = workspace.fresh('staging');
  try {
    await using webServer = newWebServer();
    await using node = where === 'ours' ? new Nodes() : undefined;
    await webServer.call('prepare', { ...series.files, seed: SEED, totalBytes: series.bytes });
    const own = await node?.cluster(nodeDirectory, series.storages);
    const trackers = own === undefined ? trackersOf(where, servers)! : [own];
    const keeps = merges ? ('default' as const) : undefined;
    const options = { trackers, directory, connections: concurrency, keeps, bytes: series.bytes };
    await webServer.call('open', options);
    await webServer.call('warmUp', plan.warmUpFiles);
    const before = await node?.cpuSeconds();
    const maxSeconds = merges ? undefined : series.directSeconds;
    const result = await webServer.call('write', { concurrency, maxSeconds });
    const after = await node?.cpuSeconds();
    if (where !== 'ours') await webServer.call('removeAll');
    await webServer.call('close');
    const { files, bytes, acknowledged, stored }: WriteResult = result;
    const add = (step: string, { seconds, cpuSeconds }: Span) =>
      figures.addAll(`${at}.${where}.${step}`, {
        MBps: [bytes / 1e6 / seconds, 'MB/s'],
        uploads: [files / seconds, 'uploads/s'],
        cpu: [cpuSeconds / seconds, 'cores'],
        load: [(cost.perUpload * files) / cpuSeconds, 'share'],
      });
    if (merges) add('acknowledged', acknowledged);
    add(merges ? 'stored' : 'direct', stored);
    if (before === undefined || after === undefined) return;
    const step = merges ? 'stored' : 'direct';
    figures.add(`${at}.${where}.${step}.storage`, 'cores', (after - before) / stored.seconds);
  } finally {
    await workspace.remove(nodeDirectory);
    await workspace.remove(directory);
  }
}

export function newWebServer(): Child<WebServerHandlers> {
  return new Child<WebServerHandlers>(new URL('./web-server-process.js', import.meta.url));
}

async function show(
  context: BenchmarkContext,
  { id, title, concurrencies }: WriteSeries,
  variants: readonly Variant[],
): Promise<void> {
  const { print, table, chart } = context;
  const steps = variants.flatMap(stepsOf);
  const head = 'At a time';
  const rows = concurrencies.map((c) => [String(c), `write.${id}.c${c}`] as const);
  const columns = (what: string, format = spread) =>
    steps.map(([step, name]): Column => [name, `${step}.${what}`, format]);
  print(`## Uploads: ${title}\n\nMB/s, median (least–greatest):`);
  table(`write-${id}`, { head, rows, columns: columns('MBps') });
  print('Uploads/s:');
  table(`write-${id}-uploads`, { head, rows, columns: columns('uploads') });
  print('Stored by client merging, times the other; in the paper:');
  const paper = (beside: 'direct' | 'own', c: number) => {
    const at = CONCURRENCIES.indexOf(c as never);
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
  await chart(`write-${id}`, {
    ...{ title: `${title}, MB/s`, xTitle: 'at a time', yTitle: 'MB/s' },
    labels: concurrencies.map(String),
    series: steps.map(([step, name]) => ({
      name,
      values: concurrencies.map((c) => `write.${id}.c${c}.${step}.MBps`),
    })),
  });
}
