import type { BenchmarkContext } from '../harness/benchmark.js';
import { Closing } from '../harness/closing.js';
import { atLeast, atMost, type Goal, leastOf } from '../harness/goals.js';
import type { Span } from '../harness/load.js';
import { type Column, middle, percent, spread } from '../harness/markdown.js';
import { start } from '../harness/processes.js';
import { type NamedServer, trackersOf } from '../servers/kinds.js';
import { startWebServer, withStorageCpu } from './machines.js';
import {
  CONCURRENCIES,
  isThere,
  type LoadCost,
  PAPER,
  type Plan,
  SEED,
  sound,
  takesPart,
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

/** Of the wire, from which on it is full. */
const FULL_SHARE = 0.85;

/** FastDFS's own merging fills the wire, or leaves room. */
function wireGoals({ id, title, concurrencies, wire }: WriteSeries): readonly Goal[] {
  const least =
    (isFull: boolean, step: string): Goal['value'] =>
    (figures) => {
      const ratios = concurrencies.flatMap((c) => {
        const at = `write.${id}.c${c}`;
        const own = figures.median(`${at}.fastdfs-trunk.direct.MBps`);
        if (own * 1e6 > FULL_SHARE * wire!.bytesPerSecond !== isFull) return [];
        return [figures.median(`${at}.fastdfs.${step}.MBps`) / own];
      });
      if (ratios.length === 0) throw new Error(`the wire was ${isFull ? 'never' : 'always'} full`);
      return Math.min(...ratios);
    };
  const own = "x FastDFS's own merging";
  const goal = (what: string, where: string, bound: number, value: Goal['value']) =>
    atLeast(`write.${id}.${what}`, `${title}, ${where}: stored at least {} ${own}`, bound, value);
  return [
    goal('with-room', 'not full', 1.21, least(false, 'stored')),
    // Nothing fills a gigabit here.
    ...(id === '100m' ? [goal('full', 'full', 0.97, least(true, 'stored'))] : []),
    atLeast(
      `write.${id}.acknowledged`,
      `${title}, not full: acknowledged at least {} ${own}`,
      5,
      least(false, 'acknowledged'),
    ),
  ];
}

export function writeGoals(series: WriteSeries, servers: readonly NamedServer[]): readonly Goal[] {
  const { id, title, concurrencies, wire } = series;
  if (wire) return isThere('fastdfs-trunk', servers) ? wireGoals(series) : [];
  const where = isThere('fastdfs', servers) ? 'fastdfs' : 'ours';
  const fall = atMost(
    `write.${id}.${where}.fall`,
    `${title}: stored files a second fall by at most {} % from their peak to the most at a time`,
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
      await using closing = new Closing();
      const webServer = await startWebServer(closing, series.wire);
      await using node = where === 'ours' ? start('harness/nodes') : undefined;
      const { bytes: totalBytes, directSeconds: maxSeconds } = series;
      await webServer.call('prepare', { ...series.files, seed: SEED, totalBytes });
      const own = await node?.call('group', nodeDirectory);
      const trackers = own === undefined ? (trackersOf(where, servers) ?? []) : [own];
      const target = { trackers, connections: concurrency };
      const sdk = { client: 'sdk', directory, keeps: 'default', bytes: totalBytes } as const;
      await webServer.call('open', { ...target, ...(merges ? sdk : { client: 'stevedore' }) });
      const warmUp = { operations: plan.warmUpFiles, concurrency: WARM_UP_CONCURRENCY };
      sound(await webServer.call('upload', warmUp));
      const load = { concurrency, ...(!merges && maxSeconds !== undefined && { maxSeconds }) };
      const [result, storageSeconds] = await withStorageCpu(node, trackers, () =>
        webServer.call('fill', load, CHECKED_FILES),
      );
      if (where !== 'ours') await webServer.call('removeAll');
      await webServer.call('close');
      const { operations, bytes, stored, ...acknowledged } = sound(result);
      const add = (step: string, { seconds, cpuSeconds }: Span) =>
        figures.addAll(`${at}.${where}.${step}`, {
          MBps: [bytes / 1e6 / seconds, 'MB/s'],
          uploads: [operations / seconds, 'uploads/s'],
          cpu: [(1e6 * cpuSeconds) / operations, 'µs'],
          load: [(cost.perUpload * operations) / cpuSeconds, 'share'],
        });
      if (merges) add('acknowledged', acknowledged);
      const step = merges ? 'stored' : 'direct';
      add(step, stored);
      const storage = storageSeconds && (1e6 * storageSeconds) / operations;
      figures.addAll(`${at}.${where}.${step}`, { storage: [storage, 'µs'] });
    } finally {
      await workspace.remove(nodeDirectory);
      await workspace.remove(directory);
    }
  };
  const variants = VARIANTS.filter(({ where }) => takesPart(where, series.wire, servers));
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
      const most = of(concurrencies.at(-1));
      if (!figures.has(most)) continue;
      const peak = Math.max(...concurrencies.map((c) => figures.last(of(c))));
      const fall = 100 * (1 - figures.last(most) / peak);
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
    return at === -1 ? '–' : (merging / other).toFixed(2);
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
    'CPU of a file in µs: of the web server, of it the load, that finds its files and calls, and of tracker and storages:',
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
