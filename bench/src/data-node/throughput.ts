import { copyFile, link, mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { AS_THE_COMMAND } from '../harness/child.js';
import { Closing } from '../harness/closing.js';
import {
  atLeast,
  atMost,
  type Goal,
  greatestOf,
  leastOf,
  medianOf,
  over,
} from '../harness/goals.js';
import { type Column, gain, middle, spread } from '../harness/markdown.js';
import { type Running, start } from '../harness/processes.js';
import type { LoadOptions, Target } from './load-process.js';
import type { counts } from './node-process.js';
import {
  CACHE_BYTES,
  DISKS,
  type DiskKind,
  LAYOUTS,
  type Layout,
  PAPER_GAINS,
  PAPER_KNEE_MEBIBYTES,
  type Plan,
  SETTING_NAMES,
  SETTINGS,
  type Setting,
  THREADS,
} from './plan.js';

/**
 * Figures 6 to 9: throughput over threads, reads alone (6) and mixed with writes (8), over the size
 * of the cache (7), and over the number of nodes (9), each with files, cache and disk of its own.
 * The measured nodes, and the load that asks them, are processes of their own.
 */

/** Seeds of a load's threads are made from it. */
const MAX_SEED = 1_000_000;
const CALL_LIMIT_MS = 600_000;
const LIKE_THE_COMMAND = { callLimitMs: CALL_LIMIT_MS, ...AS_THE_COMMAND };
const WARM_UP_SECONDS = 300;
/** Smaller files are copied: they may be written. */
const LINKED_BYTES = 2 ** 20;
const MIB = 2 ** 20;
const SIZED = ['neither', 'cache', 'both'] as const;
const GAINED = SETTING_NAMES.filter((setting) => setting !== 'neither');
const DISK_NAMES: Readonly<Record<DiskKind, string>> = {
  measured: 'the measured disk',
  slowed: "the model of a disk of the paper's kind",
};

type Series = 'read' | 'mixed' | 'size' | 'nodes';
type Load = Running<'data-node/load'>;
type Counts = ReturnType<typeof counts>;
/** The files of one node in each layout; `data`: as the load knows them. */
type Stored = Readonly<Record<Layout, { readonly directory: string; readonly data: string }>>;

function figureId(series: Series, disk: DiskKind, setting: Setting, at: number | string): string {
  return `${series}.${disk}.${setting}.${at}`;
}

/** The lower ends of what the paper has, on a disk like its own. */
const MIN_GAINS = { cache: 1.17, 'co-location': 1.1, both: 1.2, direct: 1.2 } as const;
const LOADS = { read: 'reads', mixed: '20 reads for a write' } as const;

export function throughputGoals(plan: Plan): readonly Goal[] {
  const many = plan.threads.filter((count) => count >= THREADS);
  const ids = (series: Series, disk: DiskKind, setting: Setting, what: string) =>
    many.map((count) => `${figureId(series, disk, setting, count)}.${what}`);
  const from = `from ${THREADS} threads on (the least)`;
  const last = plan.cacheMebibytes.at(-1) ?? 0;
  const rateAt = (disk: DiskKind, size: number) =>
    medianOf(`${figureId('size', disk, 'cache', size)}.requests`);
  const gains = (series: 'read' | 'mixed', disk: DiskKind, setting: Setting, gain: number) =>
    atLeast(
      `${series}.${disk}.${setting}.vs-neither`,
      `${LOADS[series]}, ${disk} disk: ${setting} at least {} x neither, ${from}`,
      gain,
      leastOf(ids(series, disk, setting, 'vs-neither')),
    );
  return [
    ...Object.entries(MIN_GAINS).flatMap(([setting, gain]) => [
      gains('read', 'slowed', setting as Setting, gain),
      gains('mixed', 'slowed', setting as Setting, gain),
    ]),
    gains('read', 'measured', 'both', 1),
    gains('mixed', 'measured', 'both', 1),
    ...DISKS.flatMap((disk) => [
      over(
        `read.${disk}.both.ahead-used`,
        `${disk} disk: over {%} of the bytes read ahead are asked for`,
        0.6,
        medianOf(`${figureId('read', disk, 'both', THREADS)}.ahead-used`),
      ),
      over(
        `size.${disk}.cache.growth`,
        `${disk} disk: a cache of ${last} MiB answers more than one of ${PAPER_KNEE_MEBIBYTES} MiB (times)`,
        1,
        (figures) => rateAt(disk, last)(figures) / rateAt(disk, PAPER_KNEE_MEBIBYTES)(figures),
      ),
    ]),
    // Where the disk is fast, the processor is what there is too little of.
    atMost(
      'read.measured.co-location.cpu-vs-neither',
      `reads, measured disk: CPU of the node for a read, co-location at most {} x neither, from ${THREADS} threads on (the greatest)`,
      1.1,
      greatestOf(ids('read', 'measured', 'co-location', 'cpu-vs-neither')),
    ),
  ];
}

export async function measureThroughput(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { runs, progress } = context;
  await using load = start('data-node/load', { callLimitMs: CALL_LIMIT_MS });
  const stored: Stored[] = [];
  for (let node = 0; node < Math.max(...plan.nodes); node += 1) {
    stored.push(await storeData(context, plan, load, node));
  }
  let isDirect = true;
  {
    await using closing = new Closing();
    const startAll = startNodes(context, plan, load, closing);
    const all: Started[] = [];
    for (const setting of SETTING_NAMES) all.push(await startAll(stored, setting));
    isDirect = (await all[0]?.isDirect()) ?? false;
    await runs('threads and nodes', plan.runs, async (run) => {
      for (const disk of DISKS) {
        for (const series of ['read', 'mixed', 'nodes'] as const) {
          progress(`${series}, ${disk} disk`);
          for (const at of series === 'nodes' ? plan.nodes : plan.threads) {
            for (const nodes of all) {
              await measure(context, plan, nodes, { series, disk, at, run });
            }
          }
        }
      }
    });
  }
  await using closing = new Closing();
  const startSized = startNodes(context, plan, load, closing);
  const sized: (readonly [at: number, nodes: Started])[] = [];
  for (const at of plan.cacheMebibytes) {
    for (const setting of SIZED) {
      sized.push([at, await startSized(stored.slice(0, 1), setting, at * MIB)]);
    }
  }
  await runs('cache sizes', plan.runs, async (run) => {
    for (const disk of DISKS) {
      for (const [at, nodes] of sized) {
        await measure(context, plan, nodes, { series: 'size', disk, at, run });
      }
    }
  });
  show(context, plan);
  if (isDirect) return;
  context.print(
    'This system could not read past its page cache: the figures of the measured disk are those of memory.',
  );
}

/** Stores the files of a node in every layout. */
async function storeData(
  { workspace, progress }: BenchmarkContext,
  { dataBytes }: Plan,
  load: Load,
  node: number,
): Promise<Stored> {
  const stored: Partial<Record<Layout, Stored[Layout]>> = {};
  for (const layout of LAYOUTS) {
    progress(`storing ${Math.round(dataBytes / 1e6)} MB, ${layout}, node ${node}`);
    const [directory, web] = [workspace.fresh(layout), workspace.fresh('web')];
    await using nodes = start('harness/nodes');
    const trackers = [await nodes.call('tracker')];
    await using child = start('data-node/node', LIKE_THE_COMMAND);
    await child.call('start', directory, SETTINGS.cache.cache(CACHE_BYTES), trackers);
    const data = await load.call('fill', trackers, web, layout, { node, dataBytes });
    await workspace.remove(web);
    stored[layout] = { directory, data };
  }
  return stored as Stored;
}

/** Nodes of one setting that share a load, their caches filled as they will be. */
function startNodes(
  { workspace, progress }: BenchmarkContext,
  { warmUpRequests }: Plan,
  load: Load,
  closing: Closing,
) {
  return async (stored: readonly Stored[], setting: Setting, bytes = CACHE_BYTES) => {
    progress(`nodes of setting ${setting} are filled`);
    const { layout, cache } = SETTINGS[setting];
    const children: Running<'data-node/node'>[] = [];
    const targets: Target[] = [];
    for (const layouts of stored) {
      const { directory: from, data } = layouts[layout];
      const directory = workspace.fresh('node');
      await copyNode(from, directory);
      const child = closing.use(start('data-node/node', LIKE_THE_COMMAND));
      children.push(child);
      targets.push({ port: await child.call('start', directory, cache(bytes)), data });
    }
    /** Loads the first `count` of the nodes, by default all. */
    const run = (options: LoadOptions, count = targets.length) =>
      load.call('run', targets.slice(0, count), options);
    // A large cache takes more requests to be what it will be.
    const maxRequests = warmUpRequests * stored.length * Math.max(1, bytes / CACHE_BYTES);
    const how = { threads: THREADS, seconds: WARM_UP_SECONDS, maxRequests, seed: 0 };
    await run({ ...how, mixed: false });
    return {
      ...{ setting, run },
      setDisk: (disk: DiskKind) => Promise.all(children.map((each) => each.call('setDisk', disk))),
      isDirect: async () =>
        (await Promise.all(children.map((each) => each.call('isDirect')))).every(Boolean),
      /** Of all nodes together. */
      counts: async () => {
        const all = await Promise.all(children.map((each) => each.call('counts')));
        const names = Object.keys(all[0] ?? {}) as (keyof Counts)[];
        const sum = (name: keyof Counts) => all.reduce((total, each) => total + each[name], 0);
        return Object.fromEntries(names.map((name) => [name, sum(name)])) as Counts;
      },
    };
  };
}
type Started = Awaited<ReturnType<ReturnType<typeof startNodes>>>;

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
  readonly disk: DiskKind;
  /** What is varied: threads, MiB of the cache, nodes. */
  readonly at: number;
  readonly run: number;
}

async function measure(
  { figures }: BenchmarkContext,
  plan: Plan,
  nodes: Started,
  { series, disk, at, run }: Point,
): Promise<void> {
  const count = series === 'nodes' ? at : 1;
  const threads = series === 'read' || series === 'mixed' ? at : THREADS * count;
  // The same requests for all settings, and for nothing else: they would be in the caches.
  const seed = crc32(`${series} ${disk} ${series === 'size' ? '' : at} ${run}`) % MAX_SEED;
  await nodes.setDisk(disk);
  const before = await nodes.counts();
  const how = { threads, mixed: series === 'mixed', seed, maxRequests: Infinity };
  const { operations: requests, ...span } = await nodes.run(
    { ...how, seconds: plan.seconds[disk] },
    count,
  );
  const after = await nodes.counts();
  const change = (name: keyof Counts): number => after[name] - before[name];
  const decided = (all: Counts) => all.aheadUsedBytes + all.aheadUnusedBytes;
  // Where nothing was read ahead in so short a time: of all since the start.
  const isNew = decided(after) > decided(before);
  const used = isNew ? change('aheadUsedBytes') : after.aheadUsedBytes;
  const ahead = isNew ? decided(after) - decided(before) : decided(after);
  const id = figureId(series, disk, nodes.setting, at);
  figures.addAll(id, {
    requests: [requests / span.seconds, 'requests/s'],
    'disk-reads': [change('diskReads') / requests, 'reads/request'],
    'disk-kB': [change('diskBytes') / 1000 / requests, 'kB/request'],
    hits: [change('hits') / Math.max(1, change('hits') + change('misses')), 'share'],
    'node-cpu': [change('cpuSeconds') / span.seconds, 'cores'],
    'load-cpu': [span.cpuSeconds / span.seconds, 'cores'],
    cpu: [(change('cpuSeconds') * 1e6) / requests, 'µs/request'],
    'ahead-used': [ahead > 0 ? used / ahead : undefined, 'share'],
  });
  if (nodes.setting === 'neither') return;
  // Of this run, in which it came first: what slows the machine for a while slows both.
  const neither = figureId(series, disk, 'neither', at);
  figures.addRatio(`${id}.vs-neither`, `${id}.requests`, `${neither}.requests`);
  figures.addRatio(`${id}.cpu-vs-neither`, `${id}.cpu`, `${neither}.cpu`);
}

function show({ print, table, chart }: BenchmarkContext, plan: Plan): void {
  const tableOf = (series: Series, disk: DiskKind, head: string, values: readonly number[]) => ({
    ...{ head, rows: values.map((at) => [String(at), String(at)] as const) },
    id: (at: string, what: string) => {
      const [setting, figure] = what.split('.') as [Setting, string];
      return `${figureId(series, disk, setting, at)}.${figure}`;
    },
  });
  const columns = (settings: readonly Setting[], what: string, format = spread) =>
    settings.map((each): Column => [each, `${each}.${what}`, format]);
  for (const [series, title, xTitle, values] of [
    ['read', 'Figure 6: reads over threads', 'threads', plan.threads],
    ['mixed', 'Figure 8: 20 reads for a write, over threads', 'threads', plan.threads],
    ['nodes', 'Figure 9: reads over nodes', 'nodes', plan.nodes],
  ] as const) {
    print(`## ${title}`);
    for (const disk of DISKS) {
      const all = tableOf(series, disk, xTitle, values);
      print(`On ${DISK_NAMES[disk]}, requests/s, median (least–greatest):`);
      table(`${series}-${disk}`, {
        ...{ ...all, columns: columns(SETTING_NAMES, 'requests') },
        chart: { title: `${title} (${DISK_NAMES[disk]})`, yTitle: 'requests/s' },
      });
      print('Gain over neither, percent:');
      const known = [['the paper', ...PAPER_GAINS[series]]];
      const gains = columns(GAINED, 'vs-neither', gain);
      table(`${series}-${disk}-gain`, { ...all, columns: gains, known });
      for (const [what, text] of [
        ['disk-reads', 'Reads of the disk per request'],
        ['disk-kB', 'kB read from the disk per request'],
        ['cpu', 'CPU of the nodes for a request, µs'],
        ['load-cpu', 'CPU of the load, cores'],
      ] as const) {
        print(`${text}:`);
        const of = columns(SETTING_NAMES, what, middle);
        table(`${series}-${disk}-${what}`, { ...all, columns: of });
      }
    }
  }
  print('## Figure 7: gain over the size of the cache');
  for (const disk of DISKS) {
    print(
      `On ${DISK_NAMES[disk]}; gain over neither, whose page cache is as large. The paper's gain grows nearly linearly up to 64 MB and much slower from there on.`,
    );
    table(`size-${disk}`, {
      ...tableOf('size', disk, 'Cache, MiB', plan.cacheMebibytes),
      columns: SIZED.flatMap((setting): Column[] => [
        [`${setting}, requests/s`, `${setting}.requests`, middle],
        ['gain, %', `${setting}.vs-neither`, gain],
        ['hit ratio', `${setting}.hits`, middle],
      ]),
    });
    chart(`size-${disk}`, {
      title: `Figure 7: gain over cache size (${DISK_NAMES[disk]})`,
      ...{ xTitle: 'cache, MiB', yTitle: 'times neither' },
      labels: plan.cacheMebibytes.map(String),
      series: SIZED.slice(1).map((setting) => ({
        name: setting,
        values: plan.cacheMebibytes.map(
          (at) => `${figureId('size', disk, setting, at)}.vs-neither`,
        ),
      })),
    });
  }
}
