import { crc32 } from 'node:zlib';
import type { BenchmarkContext } from '../harness/benchmark.js';
import type { NodeCounts } from './node-process.js';
import type { Nodes } from './nodes.js';
import type { Plan } from './plan.js';
import { type DiskKind, SETTINGS, type Setting } from './settings.js';

/** One measurement, and the figures that it gives. */

/** Seeds of a load's threads are made from it. */
const MAX_SEED = 1_000_000;

/** read and mixed are figures 6 and 8, size figure 7, nodes figure 9. */
export type Series = 'read' | 'mixed' | 'size' | 'nodes';

export interface Point {
  readonly series: Series;
  readonly disk: DiskKind;
  readonly setting: Setting;
  /** What is varied, `t16` say. */
  readonly at: string;
}

export function figureId({ series, disk, setting, at }: Point, what: string): string {
  return `${series}.${disk}.${setting}.${at}.${what}`;
}

export async function measure(
  { figures }: BenchmarkContext,
  plan: Plan,
  nodes: Nodes,
  point: Point,
  load: {
    readonly threads: number;
    readonly mixed: boolean;
    readonly run: number;
    /** Nodes that are loaded; default: all. */
    readonly nodes?: number;
  },
): Promise<void> {
  const { nodes: count, threads, mixed, run } = load;
  // The same requests for all settings, and for nothing else: they would be in the caches.
  const { series, disk, at } = point;
  const place = series === 'size' ? '' : at;
  const seed = crc32(`${series} ${disk} ${place} ${run}`) % MAX_SEED;
  const seconds = plan.seconds[point.disk];
  await nodes.setDisk(point.disk);
  const before = await nodes.counts();
  const result = await nodes.run(
    { threads, mixed, seed, seconds, maxRequests: Number.MAX_SAFE_INTEGER },
    count,
  );
  const after = await nodes.counts();
  const change = (name: keyof typeof before): number => after[name] - before[name];
  const { requests } = result;
  const add = (what: string, unit: string, value: number) =>
    figures.add(figureId(point, what), unit, value);
  add('requests', 'requests/s', requests / result.seconds);
  add('disk.reads', 'reads/request', change('diskReads') / requests);
  add('disk.bytes', 'kB/request', change('diskBytes') / 1000 / requests);
  add('hits', 'share', change('hits') / Math.max(1, change('hits') + change('misses')));
  add('cpu.node', 'cores', change('cpuSeconds') / result.seconds);
  add('cpu.load', 'cores', result.cpuSeconds / result.seconds);
  add('cpu.request', 'µs/request', (change('cpuSeconds') * 1e6) / requests);
  const decided = (counts: NodeCounts) => counts.aheadUsedBytes + counts.aheadUnusedBytes;
  // Where nothing was read ahead in so short a time: of all since the start.
  const isNew = decided(after) > decided(before);
  const from = isNew ? before : { ...before, aheadUsedBytes: 0, aheadUnusedBytes: 0 };
  const bytes = decided(after) - decided(from);
  if (bytes > 0) add('ahead.used', 'share', (after.aheadUsedBytes - from.aheadUsedBytes) / bytes);
}

/**
 * Each setting against `neither`, and ours against the page cache, in the same run: what
 * slows the machine for a while slows both.
 */
export function addRatios({ figures }: BenchmarkContext, point: Omit<Point, 'setting'>): void {
  const last = (setting: Setting, what: string): number =>
    figures.values(figureId({ ...point, setting }, what)).at(-1)!;
  const add = (setting: Setting, what: string, base: Setting, id: string): void =>
    figures.add(
      figureId({ ...point, setting }, id),
      'times',
      last(setting, what) / last(base, what),
    );
  for (const setting of SETTINGS) {
    if (setting === 'neither') continue;
    add(setting, 'requests', 'neither', 'vs-neither');
    add(setting, 'cpu.request', 'neither', 'cpu-vs-neither');
    if (setting !== 'page-cache') add(setting, 'requests', 'page-cache', 'vs-page-cache');
  }
}
