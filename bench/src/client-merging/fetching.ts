import type { BenchmarkContext } from '../harness/benchmark.js';
import { StorageNode } from '../harness/storage-node.js';
import { FETCH_CONCURRENCIES } from './paper.js';
import type { Plan } from './plan.js';
import { WebServer } from './web-server.js';
import type { FetchResult, LoadCost, TargetChoice } from './web-server-process.js';

/**
 * Fetches of stored files: uploaded one by one, merged as the SDK does by default
 * (merged files stay as a local read copy), and merged with nothing kept locally,
 * so that every fetch is a ranged download from the storage. Files are drawn at
 * random, uniformly; every one is compared with what was stored.
 */

export type FetchVariant = 'direct' | 'merged-default' | 'merged-storage-only' | 'own-merging';

export function fetchId(variant: FetchVariant, concurrency: number, what: string): string {
  return `fetch.${variant}.c${concurrency}.${what}`;
}

/** What is left on the web server's own disk where nothing is to be kept there. */
export const LOCAL_ID = 'fetch.merged-storage-only.local';

const WARM_UP_CONCURRENCY = 20;

/** A variant's processes, with the files in place. */
interface Subject {
  readonly variant: FetchVariant;
  readonly webServer: WebServer;
  /** Undefined for a named cluster. */
  readonly node: StorageNode | undefined;
  readonly directories: readonly string[];
}

export async function measureFetching(
  context: BenchmarkContext,
  plan: Plan,
  cost: LoadCost,
): Promise<void> {
  const variants: readonly FetchVariant[] = [
    'direct',
    'merged-default',
    'merged-storage-only',
    ...(context.trackers ? (['own-merging'] as const) : []),
  ];
  for (let run = 1; run <= plan.runs; run += 1) {
    context.progress(`fetches, run ${run} of ${plan.runs}`);
    const subjects: Subject[] = [];
    try {
      for (const variant of variants) subjects.push(begin(context, variant));
      for (const subject of subjects) {
        await fill(context, plan, subject);
        if (subject.variant === 'merged-storage-only') await addLocal(context, subject);
      }
      for (const concurrency of FETCH_CONCURRENCIES) {
        for (const subject of subjects) {
          await measure(context, plan, subject, concurrency, run, cost);
        }
        addRatios(context, concurrency);
      }
    } finally {
      await Promise.all(subjects.map((subject) => end(context, subject)));
    }
  }
}

function begin({ workspace }: BenchmarkContext, variant: FetchVariant): Subject {
  const webServer = new WebServer();
  const node = variant === 'own-merging' ? undefined : new StorageNode();
  const directories = [workspace.fresh('node'), workspace.fresh('staging')];
  return { variant, webServer, node, directories };
}

async function fill(
  { trackers: named = [] }: BenchmarkContext,
  plan: Plan,
  { variant, webServer, node, directories }: Subject,
): Promise<void> {
  const [nodeDirectory = '', directory = ''] = directories;
  const trackers = node ? [await node.start(nodeDirectory)] : named;
  await webServer.prepare(plan.fetchBytes);
  const isMerged = variant === 'merged-default' || variant === 'merged-storage-only';
  const choice: TargetChoice = isMerged
    ? { kind: 'merging', trackers, directory, storageOnly: false }
    : { kind: 'direct', trackers };
  await webServer.open(choice);
  await webServer.call('fill', undefined);
  if (variant === 'merged-storage-only') {
    // Opened again: how much is kept is decided then.
    await webServer.call('close', undefined);
    await webServer.open({ kind: 'merging', trackers, directory, storageOnly: true });
  }
  const warmUp = { concurrency: WARM_UP_CONCURRENCY, seconds: plan.warmUpSeconds, seed: 0 };
  await webServer.call('fetch', warmUp);
}

/** What should not be there, and would be fetched from this disk. */
async function addLocal({ figures }: BenchmarkContext, { webServer }: Subject): Promise<void> {
  figures.add(LOCAL_ID, 'MB', (await webServer.call('localBytes', undefined)) / 1e6);
}

async function measure(
  { figures }: BenchmarkContext,
  plan: Plan,
  { variant, webServer, node }: Subject,
  concurrency: number,
  run: number,
  cost: LoadCost,
): Promise<void> {
  const seed = run * 1000 + concurrency;
  const before = await node?.cpuSeconds();
  const result: FetchResult = await webServer.call('fetch', {
    concurrency,
    seconds: plan.fetchSeconds,
    seed,
  });
  const after = await node?.cpuSeconds();
  const { fetches, bytes, seconds, cpuSeconds } = result;
  const add = (what: string, unit: string, value: number) =>
    figures.add(fetchId(variant, concurrency, what), unit, value);
  add('fetches', 'fetches/s', fetches / seconds);
  add('MBps', 'MB/s', bytes / 1e6 / seconds);
  add('cpu.web-server', 'cores', cpuSeconds / seconds);
  add('cpu.load', 'share', (cost.cpuSecondsPerFetch * fetches) / cpuSeconds);
  if (before !== undefined && after !== undefined) {
    add('cpu.storage', 'cores', (after - before) / seconds);
  }
}

/** Of this run: what slows the machine for a while slows both. */
function addRatios({ figures }: BenchmarkContext, concurrency: number): void {
  const last = (variant: FetchVariant) =>
    figures.values(fetchId(variant, concurrency, 'fetches')).at(-1)!;
  for (const variant of ['merged-default', 'merged-storage-only'] as const) {
    const id = fetchId(variant, concurrency, 'vs-direct');
    figures.add(id, 'times', last(variant) / last('direct'));
  }
}

async function end({ workspace }: BenchmarkContext, subject: Subject): Promise<void> {
  const { variant, webServer, node, directories } = subject;
  if (variant === 'own-merging') {
    await webServer.call('removeAll', undefined).catch((error: Error) => {
      process.stderr.write(`bench: files were left in the named cluster: ${error.message}\n`);
    });
  }
  await webServer[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  for (const directory of directories) await workspace.remove(directory);
}
