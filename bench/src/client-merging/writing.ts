import type { BenchmarkContext } from '../harness/benchmark.js';
import { Nodes } from '../harness/nodes.js';
import type { NamedServer } from '../servers/kinds.js';
import { type Plan, trackersOf, type Where, type WriteSeries } from './plan.js';
import { WebServer } from './web-server.js';
import type { LoadCost, Span, TargetChoice, WriteResult } from './web-server-process.js';

/**
 * Uploads: directly, and through the SDK, in turns. Every measurement has processes
 * and directories of its own. One pass of the SDK gives two figures: acknowledged
 * (while trunks are merged and sent beside) and stored (the clock goes on until all
 * is merged and confirmed).
 */

interface Variant {
  readonly kind: 'direct' | 'merging';
  readonly where: Where;
}

export type Step = 'direct' | 'acknowledged' | 'stored';

export interface Column {
  readonly step: Step;
  readonly where: Where;
}

const VARIANTS: readonly Variant[] = [
  { kind: 'direct', where: 'ours' },
  { kind: 'merging', where: 'ours' },
  { kind: 'direct', where: 'fastdfs' },
  { kind: 'direct', where: 'fastdfs-trunk' },
  { kind: 'merging', where: 'fastdfs' },
];

function variantsOn(servers: readonly NamedServer[]): readonly Variant[] {
  return VARIANTS.filter(({ where }) => where === 'ours' || trackersOf(where, servers));
}

export function columnsOn(servers: readonly NamedServer[]): readonly Column[] {
  return variantsOn(servers).flatMap(({ kind, where }): Column[] =>
    kind === 'direct'
      ? [{ step: 'direct', where }]
      : [
          { step: 'acknowledged', where },
          { step: 'stored', where },
        ],
  );
}

export function writeId(series: string, { step, where }: Column, concurrency: number): string {
  return `write.${series}.${where}.${step}.c${concurrency}`;
}

/** Of `stored` on that cluster. */
export function ratioId(series: string, where: Where, beside: Where, concurrency: number): string {
  return `write.${series}.${where}.stored-vs-direct-${beside}.c${concurrency}`;
}

export function fallId(series: string, where: Where): string {
  return `write.${series}.${where}.stored-fall`;
}

export async function measureWriting(
  context: BenchmarkContext,
  series: WriteSeries,
  plan: Plan,
  cost: LoadCost,
): Promise<void> {
  const variants = variantsOn(context.servers);
  for (let run = 1; run <= series.runs; run += 1) {
    for (const concurrency of series.concurrencies) {
      const what = `${series.id}, run ${run} of ${series.runs}, concurrency ${concurrency}`;
      context.progress(`uploads, ${what}`);
      for (const variant of variants) {
        const measured = await measure(context, { series, plan, variant, concurrency });
        record(context, series, variant, concurrency, measured, cost);
      }
      addRatios(context, series, concurrency);
    }
    addFall(context, series);
  }
}

interface Measured extends WriteResult {
  /** CPU time of the storages while all was stored; undefined for a named cluster. */
  readonly storageCpuSeconds: number | undefined;
}

interface Measurement {
  readonly series: WriteSeries;
  readonly plan: Plan;
  readonly variant: Variant;
  readonly concurrency: number;
}

async function measure(
  { workspace, servers }: BenchmarkContext,
  { series, plan, variant: { kind, where }, concurrency }: Measurement,
): Promise<Measured> {
  const nodeDirectory = workspace.fresh('node');
  const directory = workspace.fresh('staging');
  try {
    await using webServer = new WebServer();
    await using node = where === 'ours' ? new Nodes() : undefined;
    const [tracker] = await Promise.all([
      node?.cluster(nodeDirectory, series.storages),
      webServer.prepare(series.files, series.bytes),
    ]);
    const trackers = tracker === undefined ? trackersOf(where, servers)! : [tracker];
    const choice: TargetChoice =
      kind === 'merging'
        ? { kind, trackers, directory, connections: concurrency, keeps: 'default' }
        : { kind, trackers, connections: concurrency };
    await webServer.open(choice);
    await webServer.call('warmUp', plan.warmUpFiles);
    const before = await node?.cpuSeconds();
    const maxSeconds = kind === 'merging' ? undefined : series.directSeconds;
    const result = await webServer.call('write', { concurrency, maxSeconds });
    const after = await node?.cpuSeconds();
    if (where !== 'ours') await webServer.call('removeAll');
    await webServer.call('close');
    const storageCpuSeconds =
      before === undefined || after === undefined ? undefined : after - before;
    return { ...result, storageCpuSeconds };
  } finally {
    await workspace.remove(nodeDirectory);
    await workspace.remove(directory);
  }
}

function record(
  context: BenchmarkContext,
  series: WriteSeries,
  { kind, where }: Variant,
  concurrency: number,
  measured: Measured,
  cost: LoadCost,
): void {
  const { acknowledged, stored, storageCpuSeconds } = measured;
  const add = (step: Step, span: Span) =>
    recordSpan(context, writeId(series.id, { step, where }, concurrency), measured, span, cost);
  if (kind === 'direct') add('direct', acknowledged);
  else {
    add('acknowledged', acknowledged);
    add('stored', stored);
  }
  if (storageCpuSeconds === undefined) return;
  const step = kind === 'direct' ? 'direct' : 'stored';
  const id = writeId(series.id, { step, where }, concurrency);
  context.figures.add(`${id}.cpu.storage`, 'cores', storageCpuSeconds / stored.seconds);
}

function recordSpan(
  { figures }: BenchmarkContext,
  id: string,
  { files, bytes }: WriteResult,
  { seconds, cpuSeconds }: Span,
  cost: LoadCost,
): void {
  figures.add(`${id}.MBps`, 'MB/s', bytes / 1e6 / seconds);
  figures.add(`${id}.uploads`, 'uploads/s', files / seconds);
  figures.add(`${id}.cpu.web-server`, 'cores', cpuSeconds / seconds);
  figures.add(`${id}.cpu.load`, 'share', (cost.cpuSecondsPerUpload * files) / cpuSeconds);
}

/** Of this run: what slows the machine for a while slows both. */
function addRatios(
  { figures, servers }: BenchmarkContext,
  series: WriteSeries,
  concurrency: number,
): void {
  const last = (column: Column) =>
    figures.values(`${writeId(series.id, column, concurrency)}.MBps`).at(-1)!;
  const add = (where: Where, beside: Where) =>
    figures.add(
      ratioId(series.id, where, beside, concurrency),
      'times',
      last({ step: 'stored', where }) / last({ step: 'direct', where: beside }),
    );
  add('ours', 'ours');
  if (trackersOf('fastdfs', servers)) add('fastdfs', 'fastdfs');
  if (!trackersOf('fastdfs-trunk', servers)) return;
  add(trackersOf('fastdfs', servers) ? 'fastdfs' : 'ours', 'fastdfs-trunk');
}

/** How much slower files are stored with the most uploads at a time than with the fewest. */
function addFall({ figures, servers }: BenchmarkContext, series: WriteSeries): void {
  const [fewest, most] = [series.concurrencies[0]!, series.concurrencies.at(-1)!];
  for (const { where } of columnsOn(servers).filter(({ step }) => step === 'stored')) {
    const last = (concurrency: number) =>
      figures.values(`${writeId(series.id, { step: 'stored', where }, concurrency)}.MBps`).at(-1)!;
    figures.add(fallId(series.id, where), 'percent', 100 * (1 - last(most) / last(fewest)));
  }
}
