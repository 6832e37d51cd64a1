import { copyFile, link, mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { AS_THE_COMMAND } from '../harness/child.js';
import { Closing } from '../harness/closing.js';
import { atLeast, type Goal, leastOf, medianOf, over } from '../harness/goals.js';
import { inTurn } from '../harness/load.js';
import { type Column, gain, middle, spread } from '../harness/markdown.js';
import { type Running, start } from '../harness/processes.js';
import type { counts } from './model-process.js';
import {
  LAYOUTS,
  type Layout,
  MEMORY_BYTES,
  MIB,
  MIN_GAINS,
  PAPER_GAINS,
  PAPER_KNEE_MEBIBYTES,
  type Plan,
  SETTING_NAMES,
  SETTINGS,
  type Setting,
  THREADS,
} from './plan.js';
import type { Member, ReadOptions } from './reading.js';

/**
 * Figures 6 to 9: throughput over threads, reads alone (6) and mixed with writes (8), over the size
 * of the memory (7), and over the number of nodes (9), each with files, memory and disk of its own: in
 * virtual time on modelled disks. And reads with 16 threads from this machine's disk.
 */

/** Seeds of a load's threads are made from it. */
const MAX_SEED = 1_000_000;
const CALL_LIMIT_MS = 3_600_000;
const LIKE_THE_COMMAND = { callLimitMs: CALL_LIMIT_MS, ...AS_THE_COMMAND };
const WARM_UP_SECONDS = 100_000;
/** Smaller files are copied: they may be written. */
const LINKED_BYTES = 2 ** 20;
const SIZED = ['neither', 'cache', 'ours'] as const satisfies readonly Setting[];
const MEASURED = ['neither-pages', 'admission', 'ours'] as const satisfies readonly Setting[];
const SERIES = ['read', 'mixed', 'nodes', 'size', 'measured'] as const;
type Series = (typeof SERIES)[number];
type Counts = ReturnType<typeof counts>;
type Groups = readonly (readonly Member[])[];
/** The files of one node in each layout. */
type Stored = Readonly<Record<Layout, { readonly directory: string; readonly groups: Groups }>>;

const idOf = (series: Series, setting: Setting, at: number | string) =>
  `${series}.${setting}.${at}`;

export function modelGoals({ threads, cacheMebibytes }: Plan): readonly Goal[] {
  const ids = (series: Series, setting: Setting) =>
    threads.filter((count) => count >= THREADS).map((at) => `${idOf(series, setting, at)}.gain`);
  const last = cacheMebibytes.at(-1) ?? 0;
  const knee = `${idOf('size', 'cache', PAPER_KNEE_MEBIBYTES)}.requests`;
  return [
    ...(['read', 'mixed'] as const).flatMap((series) =>
      (Object.entries(MIN_GAINS) as [keyof typeof MIN_GAINS, number][]).map(([setting, least]) =>
        atLeast(
          `${series}.${setting}.gain`,
          `figure ${series === 'read' ? '6, reads' : '8, 20 reads for a write'}: ${SETTINGS[setting].title} at least {} x neither, from ${THREADS} threads on (the least)`,
          least,
          leastOf(ids(series, setting)),
        ),
      ),
    ),
    over(
      'size.cache.growth',
      `figure 7: a cache of ${last} MiB answers more than one of ${PAPER_KNEE_MEBIBYTES} MiB (times)`,
      1,
      (figures) => figures.median(`${idOf('size', 'cache', last)}.requests`) / figures.median(knee),
    ),
    over(
      'read.ours.ahead-used',
      'ours: over {%} of the bytes read ahead are asked for',
      0.6,
      medianOf(`${idOf('read', 'ours', THREADS)}.ahead-used`),
    ),
  ];
}

export const MEASURED_GOALS: readonly Goal[] = [
  atLeast(
    'measured.ours.gain',
    `this machine's disk, ${THREADS} threads: ours at least {} x neither, by pages`,
    1,
    medianOf(`${idOf('measured', 'ours', THREADS)}.gain`),
  ),
];

/** Stores the files of nodes in the layouts. */
async function storeData(
  { workspace, progress }: BenchmarkContext,
  { dataBytes }: Plan,
  count: number,
  layouts: readonly Layout[],
): Promise<readonly Stored[]> {
  const all: Stored[] = [];
  for (let node = 0; node < count; node += 1) {
    const stored: Partial<Record<Layout, Stored[Layout]>> = {};
    for (const layout of layouts) {
      progress(`storing ${Math.round(dataBytes / 1e6)} MB, ${layout}, node ${node}`);
      const [directory, web] = [workspace.fresh(layout), workspace.fresh('web')];
      await using nodes = start('harness/nodes');
      const trackers = [await nodes.call('tracker')];
      await using child = start('data-node/node', LIKE_THE_COMMAND);
      await child.call('start', directory, SETTINGS.cache.options(MEMORY_BYTES), trackers);
      await using load = start('data-node/load', { callLimitMs: CALL_LIMIT_MS });
      const groups = await load.call('fill', trackers, web, layout, { node, dataBytes });
      await workspace.remove(web);
      stored[layout] = { directory, groups };
    }
    all.push(stored as Stored);
  }
  return all;
}

/** Trunks never change: a second name is as good as a copy. */
async function copyNode(from: string, to: string): Promise<void> {
  for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const copy = join(to, path.slice(from.length));
    await mkdir(dirname(copy), { recursive: true });
    if ((await stat(path)).size >= LINKED_BYTES) await link(path, copy);
    else await copyFile(path, copy);
  }
}

interface Point {
  readonly series: Series;
  readonly setting: Setting;
  /** What is varied: threads, MiB of the memory, nodes. */
  readonly at: number;
  readonly run: number;
}

const threadsOf = ({ series, at }: Point) =>
  series === 'read' || series === 'mixed' ? at : THREADS * (series === 'nodes' ? at : 1);

/** The same requests for all settings, and for nothing else: they would be in the caches. */
function seedOf({ series, at, run }: Point): number {
  return crc32(`${series} ${series === 'size' ? '' : at} ${run}`) % MAX_SEED;
}

interface Measured {
  readonly requests: number;
  readonly seconds: number;
}

function addFigures(
  { figures }: BenchmarkContext,
  point: Point,
  { requests, seconds }: Measured,
  before: Counts,
  after: Counts,
): void {
  const change = (name: keyof Counts): number => after[name] - before[name];
  const decided = (all: Counts) => all.aheadUsedBytes + all.aheadUnusedBytes;
  // Where nothing was read ahead in so short a time: of all since the start.
  const isNew = decided(after) > decided(before);
  const used = isNew ? change('aheadUsedBytes') : after.aheadUsedBytes;
  const ahead = isNew ? decided(after) - decided(before) : decided(after);
  const { series, setting, at } = point;
  figures.addAll(idOf(series, setting, at), {
    requests: [requests / seconds, 'requests/s'],
    'disk-reads': [change('diskReads') / requests, 'reads/request'],
    'disk-kB': [change('diskBytes') / 1000 / requests, 'kB/request'],
    hits: [change('hits') / Math.max(1, change('hits') + change('misses')), 'share'],
    'ahead-used': [ahead > 0 ? used / ahead : undefined, 'share'],
  });
}

/** Of the same run: the same requests. */
function addGains(
  { figures }: BenchmarkContext,
  series: Series,
  base: Setting,
  ats: readonly number[],
  runs: number,
): void {
  for (const setting of SETTING_NAMES) {
    for (const at of ats) {
      const [own, other] = [setting, base].map((each) => `${idOf(series, each, at)}.requests`);
      if (setting === base || !own || !other || !figures.has(own) || !figures.has(other)) continue;
      for (let run = 0; run < runs; run += 1) {
        const ratio = figures.values(own)[run]! / figures.values(other)[run]!;
        figures.add(`${idOf(series, setting, at)}.gain`, 'times', ratio);
      }
    }
  }
}

export async function modelThroughput(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { workspace, progress } = context;
  const { modelRuns, threads, nodes, cacheMebibytes, seconds, warmUpRequests } = plan;
  const stored = await storeData(context, plan, Math.max(...nodes), LAYOUTS);
  /** Nodes of one setting, their memory filled as it will be; then all points of the series. */
  const measure = async (
    setting: Setting,
    bytes: number,
    count: number,
    series: readonly (readonly [Series, readonly number[]])[],
  ): Promise<void> => {
    progress(`model: ${SETTINGS[setting].title}, ${bytes / MIB} MiB`);
    const { layout, options } = SETTINGS[setting];
    await using model = start('data-node/model', { callLimitMs: CALL_LIMIT_MS });
    const own = stored.slice(0, count).map((each) => each[layout]);
    const copies: { readonly directory: string; readonly groups: Groups }[] = [];
    for (const { directory: from, groups } of own) {
      const directory = workspace.fresh('node');
      await copyNode(from, directory);
      copies.push({ directory, groups });
    }
    await model.call('start', copies, options(bytes));
    const how = { isModel: true, mixed: false, maxRequests: Infinity };
    // A large memory takes more requests to be what it will be.
    const maxRequests = Math.ceil(warmUpRequests * count * Math.max(1, bytes / MEMORY_BYTES));
    const warmUp = { ...how, threads: THREADS, seconds: WARM_UP_SECONDS, maxRequests, seed: 0 };
    await model.call('load', warmUp, count);
    for (let run = 0; run < modelRuns; run += 1) {
      for (const [name, ats] of series) {
        for (const at of ats) {
          const point = { series: name, setting, at, run };
          const load: ReadOptions = {
            ...{ ...how, mixed: name === 'mixed', seconds: seconds.model },
            ...{ threads: threadsOf(point), seed: seedOf(point) },
          };
          const before = await model.call('counts');
          const driven = await model.call('load', load, name === 'nodes' ? at : 1);
          const measured = { requests: driven.operations, seconds: driven.seconds };
          addFigures(context, point, measured, before, await model.call('counts'));
        }
      }
    }
    for (const { directory } of copies) await workspace.remove(directory);
  };
  const isSized = (setting: Setting) => SIZED.some((each) => each === setting);
  for (const setting of SETTING_NAMES) {
    await measure(setting, MEMORY_BYTES, stored.length, [
      ['read', threads],
      ['mixed', threads],
      ['nodes', nodes],
      ['size', isSized(setting) ? [MEMORY_BYTES / MIB] : []],
    ]);
  }
  for (const mebibytes of cacheMebibytes.filter((each) => each * MIB !== MEMORY_BYTES)) {
    for (const setting of SIZED) {
      await measure(setting, mebibytes * MIB, 1, [['size', [mebibytes]]]);
    }
  }
  addGains(context, 'read', 'neither', threads, modelRuns);
  addGains(context, 'mixed', 'neither', threads, modelRuns);
  addGains(context, 'nodes', 'neither', nodes, modelRuns);
  addGains(context, 'size', 'neither', cacheMebibytes, modelRuns);
  showModel(context, plan);
}

export async function measureThroughput(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { workspace, runs, print, table } = context;
  const [stored] = await storeData(context, plan, 1, ['scattered', 'co-located']);
  await using closing = new Closing();
  const load = closing.use(start('data-node/load', { callLimitMs: CALL_LIMIT_MS }));
  const started: {
    readonly setting: Setting;
    readonly child: Running<'data-node/node'>;
    readonly read: (options: ReadOptions) => Promise<Measured>;
  }[] = [];
  const how = { threads: THREADS, mixed: false, isModel: false, maxRequests: Infinity };
  for (const setting of MEASURED) {
    const { layout, options } = SETTINGS[setting];
    const { directory: from, groups } = stored![layout];
    const directory = workspace.fresh('node');
    await copyNode(from, directory);
    const child = closing.use(start('data-node/node', LIKE_THE_COMMAND));
    const port = await child.call('start', directory, options(MEMORY_BYTES));
    const read = async (given: ReadOptions) => {
      const { operations, seconds } = await load.call('read', [{ port, groups }], given);
      return { requests: operations, seconds };
    };
    const maxRequests = plan.warmUpRequests;
    await read({ ...how, seconds: WARM_UP_SECONDS, maxRequests, seed: 0 });
    started.push({ setting, child, read });
  }
  await runs("reads of this machine's disk", plan.runs, async (run) => {
    for (const { setting, child, read } of inTurn(run, started)) {
      const point: Point = { series: 'measured', setting, at: THREADS, run };
      const before = await child.call('counts');
      const options = { ...how, seconds: plan.seconds.measured, seed: seedOf(point) };
      const measured = await read(options);
      addFigures(context, point, measured, before, await child.call('counts'));
    }
  });
  addGains(context, 'measured', 'neither-pages', [THREADS], plan.runs);
  const isDirect = await started[0]?.child.call('isDirect');
  const how_ = isDirect ? 'past the page cache' : 'from memory: this system reads nothing past it';
  print(`## Reads of this machine's disk, ${how_}, ${THREADS} threads`);
  table('measured', {
    head: '',
    rows: MEASURED.map((each) => [SETTINGS[each].title, idOf('measured', each, THREADS)]),
    columns: [
      ['requests/s', 'requests'],
      ['gain, %', 'gain', gain],
      ['reads a request', 'disk-reads', middle],
      ['kB a request', 'disk-kB', middle],
      ['hit ratio', 'hits', middle],
    ],
  });
}

function showModel({ print, table, chart }: BenchmarkContext, plan: Plan): void {
  const tableOf = (series: Series, head: string, values: readonly number[]) => ({
    ...{ head, rows: values.map((at) => [String(at), String(at)] as const) },
    id: (at: string, what: string) => {
      const [setting = '', figure] = what.split('.');
      return `${idOf(series, setting as Setting, at)}.${figure}`;
    },
  });
  const columns = (what: string, format = middle, settings = SETTING_NAMES) =>
    settings.map((each): Column => [SETTINGS[each].title, `${each}.${what}`, format]);
  const GAINED = SETTING_NAMES.filter((setting) => setting !== 'neither');
  for (const [series, title, xTitle, values] of [
    ['read', 'Figure 6: reads over threads', 'threads', plan.threads],
    ['mixed', 'Figure 8: 20 reads for a write, over threads', 'threads', plan.threads],
    ['nodes', 'Figure 9: reads over nodes', 'nodes', plan.nodes],
  ] as const) {
    const all = tableOf(series, xTitle, values);
    print(`## ${title}\n\nOn modelled disks, requests/s, median (least–greatest):`);
    table(series, {
      ...{ ...all, columns: columns('requests', spread) },
      chart: { title: `${title}, modelled disk`, yTitle: 'requests/s' },
    });
    print('Gain over neither, percent:');
    const known = [['the paper', ...PAPER_GAINS[series], '', '', '', '', '']];
    table(`${series}-gain`, { ...all, columns: columns('gain', gain, GAINED), known });
    print('Reads of the disk for a request:');
    table(`${series}-disk-reads`, { ...all, columns: columns('disk-reads') });
  }
  print(
    "## Figure 7: gain over the size of the memory\n\nOn modelled disks; gain over neither, whose page cache is as large. The paper's gain grows nearly linearly up to 64 MB and much slower from there on.",
  );
  table('size', {
    ...tableOf('size', 'Memory, MiB', plan.cacheMebibytes),
    columns: SIZED.flatMap((setting): Column[] => [
      [`${SETTINGS[setting].title}, requests/s`, `${setting}.requests`, middle],
      ['gain, %', `${setting}.gain`, gain],
      ['reads a request', `${setting}.disk-reads`, middle],
      ['hit ratio', `${setting}.hits`, middle],
    ]),
  });
  chart('size', {
    title: 'Figure 7: gain over the size of the memory, modelled disk',
    ...{ xTitle: 'MiB', yTitle: 'times neither' },
    labels: plan.cacheMebibytes.map(String),
    series: SIZED.slice(1).map((setting) => ({
      name: SETTINGS[setting].title,
      values: plan.cacheMebibytes.map((at) => `${idOf('size', setting, at)}.gain`),
    })),
  });
}
