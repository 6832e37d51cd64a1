import type { BenchmarkContext } from '../harness/benchmark.js';
import { StorageNode } from '../harness/storage-node.js';
import { WRITE_CONCURRENCIES } from './paper.js';
import type { Plan } from './plan.js';
import { WebServer } from './web-server.js';
import type { LoadCost, Span, TargetChoice, WriteResult } from './web-server-process.js';

/**
 * Uploads: directly, and through the SDK, in turns. Every measurement has processes
 * and directories of its own. One pass of the SDK gives two figures: acknowledged
 * (while trunks are merged and sent beside) and stored (the clock goes on until all
 * is merged and confirmed).
 */

type WriteVariant = 'direct' | 'merging' | 'own-merging';

/** What is measured of a variant; the SDK's pass is both of its two. */
export type WriteFigure = 'direct' | 'acknowledged' | 'stored' | 'own-merging';

export function writeId(figure: WriteFigure, concurrency: number, what: string): string {
  return `write.${figure}.c${concurrency}.${what}`;
}

export async function measureWriting(
  context: BenchmarkContext,
  plan: Plan,
  cost: LoadCost,
): Promise<void> {
  const variants: readonly WriteVariant[] = context.trackers
    ? ['direct', 'merging', 'own-merging']
    : ['direct', 'merging'];
  for (let run = 1; run <= plan.runs; run += 1) {
    for (const concurrency of WRITE_CONCURRENCIES) {
      context.progress(`uploads, run ${run} of ${plan.runs}, concurrency ${concurrency}`);
      for (const variant of variants) {
        const measured = await measure(context, plan, variant, concurrency);
        record(context, variant, concurrency, measured, cost);
      }
      addRatios(context, concurrency);
    }
    addFall(context);
  }
}

interface Measured extends WriteResult {
  /** CPU time of the storage while all was stored; undefined for a named cluster. */
  readonly storageCpuSeconds: number | undefined;
}

async function measure(
  { workspace, trackers: named = [] }: BenchmarkContext,
  plan: Plan,
  variant: WriteVariant,
  concurrency: number,
): Promise<Measured> {
  const nodeDirectory = workspace.fresh('node');
  const directory = workspace.fresh('staging');
  try {
    await using webServer = new WebServer();
    await using node = variant === 'own-merging' ? undefined : new StorageNode();
    const [tracker] = await Promise.all([
      node?.start(nodeDirectory),
      webServer.prepare(plan.writeBytes),
    ]);
    const trackers = tracker === undefined ? named : [tracker];
    const choice: TargetChoice =
      variant === 'merging'
        ? { kind: 'merging', trackers, directory, storageOnly: false }
        : { kind: 'direct', trackers };
    await webServer.open(choice);
    await webServer.call('warmUp', plan.warmUpFiles);
    const before = await node?.cpuSeconds();
    const maxSeconds = variant === 'merging' ? undefined : plan.directSeconds;
    const result = await webServer.call('write', { concurrency, maxSeconds });
    const after = await node?.cpuSeconds();
    if (variant === 'own-merging') await webServer.call('removeAll', undefined);
    await webServer.call('close', undefined);
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
  variant: WriteVariant,
  concurrency: number,
  measured: Measured,
  cost: LoadCost,
): void {
  const { acknowledged, stored } = measured;
  if (variant !== 'merging') {
    recordSpan(context, variant, concurrency, measured, acknowledged, cost);
    recordStorage(context, variant, concurrency, measured);
    return;
  }
  recordSpan(context, 'acknowledged', concurrency, measured, acknowledged, cost);
  recordSpan(context, 'stored', concurrency, measured, stored, cost);
  recordStorage(context, 'stored', concurrency, measured);
}

function recordSpan(
  { figures }: BenchmarkContext,
  figure: WriteFigure,
  concurrency: number,
  { files, bytes }: WriteResult,
  { seconds, cpuSeconds }: Span,
  cost: LoadCost,
): void {
  const add = (what: string, unit: string, value: number) =>
    figures.add(writeId(figure, concurrency, what), unit, value);
  add('MBps', 'MB/s', bytes / 1e6 / seconds);
  add('uploads', 'uploads/s', files / seconds);
  add('cpu.web-server', 'cores', cpuSeconds / seconds);
  add('cpu.load', 'share', (cost.cpuSecondsPerUpload * files) / cpuSeconds);
}

function recordStorage(
  { figures }: BenchmarkContext,
  figure: WriteFigure,
  concurrency: number,
  { storageCpuSeconds, stored }: Measured,
): void {
  if (storageCpuSeconds === undefined) return;
  const id = writeId(figure, concurrency, 'cpu.storage');
  figures.add(id, 'cores', storageCpuSeconds / stored.seconds);
}

/** Of this run: what slows the machine for a while slows both. */
function addRatios({ figures }: BenchmarkContext, concurrency: number): void {
  const last = (figure: WriteFigure) =>
    figures.values(writeId(figure, concurrency, 'MBps')).at(-1)!;
  for (const figure of ['acknowledged', 'stored'] as const) {
    const id = writeId(figure, concurrency, 'vs-direct');
    figures.add(id, 'times', last(figure) / last('direct'));
  }
}

/** How much slower 200 at a time are stored than 20, of this run. */
function addFall({ figures }: BenchmarkContext): void {
  const last = (concurrency: number) =>
    figures.values(writeId('stored', concurrency, 'MBps')).at(-1)!;
  figures.add('write.stored.fall-c20-c200', 'percent', 100 * (1 - last(200) / last(20)));
}
