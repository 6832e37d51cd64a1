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
  const decided = (counts: NodeCounts) => counts.aheadUsedBytes + counts.aheadUnusedBytes;
  // Where nothing was read ahead in so short a time: of all since the start.
  const isNew = decided(after) > decided(before);
  const from = isNew ? before : { ...before, aheadUsedBytes: 0, aheadUnusedBytes: 0 };
  const bytes = decided(after) - decided(from);
  if (bytes > 0) add('ahead.used', 'share', (after.aheadUsedBytes - from.aheadUsedBytes) / bytes);
}

/** Each setting against `neither` in the same run: what slows the machine for a while slows both. */
export function addRatios(
  { figures }: BenchmarkContext,
  point: Omit<Point, 'setting'>,
  settings: readonly Setting[] = SETTINGS,
  base = 'neither' as Setting,
): void {
  const last = (setting: Setting): number =>
    figures.values(figureId({ ...point, setting }, 'requests')).at(-1)!;
  for (const setting of settings) {
    if (setting === base) continue;
    const id = figureId({ ...point, setting }, 'vs-neither');
    figures.add(id, 'times', last(setting) / last(base));
  }
}
