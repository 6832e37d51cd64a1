import { crc32 } from 'node:zlib';
import type { BenchmarkContext } from '../harness/benchmark.js';
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
import type { NodeCounts } from './node-process.js';
import { newLoad, SettingNodes, type StoredLayouts, storeData } from './nodes.js';
import {
  DISKS,
  type DiskKind,
  PAPER_GAINS,
  PAPER_KNEE_MEBIBYTES,
  type Plan,
  SETTINGS,
  type Setting,
  THREADS,
} from './plan.js';

/**
 * Figures 6 to 9: throughput over threads, reads alone (6) and mixed with writes (8), over the size
 * of the cache (7), and over the number of nodes (9), each with files, cache and disk of its own.
 */

/** Seeds of a load's threads are made from it. */
const MAX_SEED = 1_000_000;
const SIZED = ['neither', 'cache', 'both'] as const;
const DISK_NAMES: Readonly<Record<DiskKind, string>> = {
  measured: 'the measured disk',
  slowed: "the model of a disk of the paper's kind",
};

type Series = 'read' | 'mixed' | 'size' | 'nodes';

function figureId(series: Series, disk: DiskKind, setting: Setting, at: number): string {
  return `${series}.${disk}.${setting}.${at}`;
}

/** The lower ends of what the paper has, on a disk like its own. */
const MIN_GAINS = { cache: 1.17, 'co-location': 1.1, both: 1.2, direct: 1.2 } as const;
const MIN_USED_SHARE = 0.6;
const MAX_CPU = 1.1;
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
      `${LOADS[series]}, ${disk} disk: ${setting} at least ${gain} x neither, ${from}`,
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
        `${disk} disk: over ${MIN_USED_SHARE * 100} % of the bytes read ahead are asked for`,
        MIN_USED_SHARE,
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
      `reads, measured disk: CPU of the node for a read, co-location at most ${MAX_CPU} x neither, from ${THREADS} threads on (the greatest)`,
      MAX_CPU,
      greatestOf(ids('read', 'measured', 'co-location', 'cpu-vs-neither')),
    ),
  ];
}

export async function measureThroughput(context: BenchmarkContext, plan: Plan): Promise<void> {
  await using load = newLoad();
  const stored: StoredLayouts[] = [];
  for (let node = 0; node < Math.max(...plan.nodes); node += 1) {
    stored.push(await storeData(context, plan, load, node));
  }
  const started: SettingNodes[] = [];
  const start = async (
    setting: Setting,
    layouts: readonly StoredLayouts[],
    cacheBytes?: number,
  ): Promise<SettingNodes> => {
    context.progress(`nodes of setting ${setting} are filled`);
    const nodes = await SettingNodes.start(context, plan, load, layouts, setting, cacheBytes);
    started.push(nodes);
    return nodes;
  };
  const stop = async () => {
    for (const nodes of started.splice(0)) await nodes[Symbol.asyncDispose]();
  };
  try {
    for (const setting of SETTINGS) await start(setting, stored);
    const isDirect = (await started[0]?.isDirect()) ?? false;
    await measureSeries(context, plan, started);
    await stop();
    const sized: { readonly nodes: SettingNodes; readonly at: number }[] = [];
    const first = stored.slice(0, 1);
    for (const at of plan.cacheMebibytes) {
      for (const setting of SIZED) {
        sized.push({ nodes: await start(setting, first, at * 2 ** 20), at });
      }
    }
    await measureSizes(context, plan, sized);
    await show(context, plan);
    if (!isDirect) {
      context.print(
        'This system could not read past its page cache: the figures of the measured disk are those of memory.',
      );
    }
  } finally {
    await stop();
  }
}

async function measureSeries(
  context: BenchmarkContext,
  plan: Plan,
  all: readonly SettingNodes[],
): Promise<void> {
  const { figures, progress } = context;
  for (let run = 1; run <= plan.runs; run += 1) {
    for (const disk of DISKS) {
      for (const series of ['read', 'mixed', 'nodes'] as const) {
        progress(`${series}, ${disk} disk, run ${run} of ${plan.runs}`);
        for (const at of series === 'nodes' ? plan.nodes : plan.threads) {
          const [count, threads] = series === 'nodes' ? [at, THREADS * at] : [1, at];
          for (const nodes of all) {
            const how = { threads, count, mixed: series === 'mixed', run };
            await measure(context, plan, nodes, { series, disk, at }, how);
          }
          const id = (setting: Setting) => figureId(series, disk, setting, at);
          for (const setting of SETTINGS) {
            if (setting === 'neither') continue;
            // Of this run: what slows the machine for a while slows both.
            for (const [ratio, what] of [
              ['vs-neither', 'requests'],
              ['cpu-vs-neither', 'cpu'],
            ]) {
              const to = `${id('neither')}.${what}`;
              figures.addRatio(`${id(setting)}.${ratio}`, `${id(setting)}.${what}`, to);
            }
          }
        }
      }
    }
  }
}

async function measureSizes(
  context: BenchmarkContext,
  plan: Plan,
  sized: readonly { readonly nodes: SettingNodes; readonly at: number }[],
): Promise<void> {
  for (let run = 1; run <= plan.runs; run += 1) {
    context.progress(`cache sizes, run ${run} of ${plan.runs}`);
    for (const disk of DISKS) {
      for (const { nodes, at } of sized) {
        const how = { threads: THREADS, count: 1, mixed: false, run };
        await measure(context, plan, nodes, { series: 'size', disk, at }, how);
        const id = figureId('size', disk, nodes.setting, at);
        const neither = figureId('size', disk, 'neither', at);
        if (nodes.setting === 'neither') continue;
        context.figures.addRatio(`${id}.vs-neither`, `${id}.requests`, `${neither}.requests`);
      }
    }
  }
}

interface Point {
  readonly series: Series;
  readonly disk: DiskKind;
  /** What is varied: threads, MiB of the cache, nodes. */
  readonly at: number;
}

async function measure(
  { figures }: BenchmarkContext,
  plan: Plan,
  nodes: SettingNodes,
  { series, disk, at }: Point,
  load: {
    readonly threads: number;
    readonly count: number;
    readonly mixed: boolean;
    readonly run: number;
  },
): Promise<void> {
  const { threads, count, mixed, run } = load;
  // The same requests for all settings, and for nothing else: they would be in the caches.
  const seed = crc32(`${series} ${disk} ${series === 'size' ? '' : at} ${run}`) % MAX_SEED;
  await nodes.setDisk(disk);
  const before = await nodes.counts();
  const how = { threads, mixed, seed, seconds: plan.seconds[disk], maxRequests: Infinity };
  const { operations: requests, seconds, cpuSeconds } = await nodes.run(how, count);
  const after = await nodes.counts();
  const change = (name: keyof NodeCounts): number => after[name] - before[name];
  const decided = (counts: NodeCounts) => counts.aheadUsedBytes + counts.aheadUnusedBytes;
  // Where nothing was read ahead in so short a time: of all since the start.
  const isNew = decided(after) > decided(before);
  const used = isNew ? change('aheadUsedBytes') : after.aheadUsedBytes;
  const ahead = isNew ? decided(after) - decided(before) : decided(after);
  figures.addAll(figureId(series, disk, nodes.setting, at), {
    requests: [requests / seconds, 'requests/s'],
    'disk-reads': [change('diskReads') / requests, 'reads/request'],
    'disk-kB': [change('diskBytes') / 1000 / requests, 'kB/request'],
    hits: [change('hits') / Math.max(1, change('hits') + change('misses')), 'share'],
    'node-cpu': [change('cpuSeconds') / seconds, 'cores'],
    'load-cpu': [cpuSeconds / seconds, 'cores'],
    cpu: [(change('cpuSeconds') * 1e6) / requests, 'µs/request'],
    'ahead-used': [ahead > 0 ? used / ahead : undefined, 'share'],
  });
}

async function show(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { print, table } = context;
  for (const [series, title, xTitle, values] of [
    ['read', 'Figure 6: reads over threads', 'threads', plan.threads],
    ['mixed', 'Figure 8: 20 reads for a write, over threads', 'threads', plan.threads],
    ['nodes', 'Figure 9: reads over nodes', 'nodes', plan.nodes],
  ] as const) {
    print(`## ${title}`);
    for (const disk of DISKS) {
      const rows = values.map((at) => [String(at), String(at)] as const);
      const id = (at: string, what: string) => {
        const [setting, figure] = what.split('.') as [Setting, string];
        return `${figureId(series, disk, setting, Number(at))}.${figure}`;
      };
      const gained = SETTINGS.filter((setting) => setting !== 'neither');
      print(`On ${DISK_NAMES[disk]}, requests/s, median (least–greatest):`);
      const columns = (settings: readonly Setting[], what: string, format = spread) =>
        settings.map((each): Column => [each, `${each}.${what}`, format]);
      table(`${series}-${disk}`, {
        head: xTitle,
        rows,
        columns: columns(SETTINGS, 'requests'),
        id,
      });
      print('Gain over neither, percent:');
      const known = [['the paper', ...PAPER_GAINS[series]]];
      const gains = columns(gained, 'vs-neither', gain);
      table(`${series}-${disk}-gain`, { head: xTitle, rows, columns: gains, id, known });
      for (const [what, text] of [
        ['disk-reads', 'Reads of the disk per request'],
        ['disk-kB', 'kB read from the disk per request'],
        ['cpu', 'CPU of the nodes for a request, µs'],
        ['load-cpu', 'CPU of the load, cores'],
      ] as const) {
        print(`${text}:`);
        const of = columns(SETTINGS, what, middle);
        table(`${series}-${disk}-${what}`, { head: xTitle, rows, columns: of, id });
      }
      await context.chart(`${series}-${disk}`, {
        title: `${title} (${DISK_NAMES[disk]})`,
        ...{ xTitle, yTitle: 'requests/s', labels: values.map(String) },
        series: SETTINGS.map((setting) => ({
          name: setting,
          values: values.map((at) => `${figureId(series, disk, setting, at)}.requests`),
        })),
      });
    }
  }
  await showSizes(context, plan);
}

async function showSizes(context: BenchmarkContext, { cacheMebibytes }: Plan): Promise<void> {
  const { print, table, chart } = context;
  print('## Figure 7: gain over the size of the cache');
  for (const disk of DISKS) {
    print(
      `On ${DISK_NAMES[disk]}; gain over neither, whose page cache is as large. The paper's gain grows nearly linearly up to 64 MB and much slower from there on.`,
    );
    table(`size-${disk}`, {
      head: 'Cache, MiB',
      rows: cacheMebibytes.map((size) => [String(size), String(size)]),
      columns: SIZED.flatMap((setting) => [
        [`${setting}, requests/s`, `${setting}.requests`, middle] as const,
        ['gain, %', `${setting}.vs-neither`, gain] as const,
        ['hit ratio', `${setting}.hits`, middle] as const,
      ]),
      id: (at, what) => {
        const [setting, figure] = what.split('.') as [Setting, string];
        return `${figureId('size', disk, setting, Number(at))}.${figure}`;
      },
    });
    await chart(`size-${disk}`, {
      title: `Figure 7: gain over cache size (${DISK_NAMES[disk]})`,
      ...{ xTitle: 'cache, MiB', yTitle: 'times neither', labels: cacheMebibytes.map(String) },
      series: SIZED.slice(1).map((setting) => ({
        name: setting,
        values: cacheMebibytes.map((at) => `${figureId('size', disk, setting, at)}.vs-neither`),
      })),
    });
  }
}
