import type { BenchmarkContext } from '../harness/benchmark.js';
import { Nodes } from '../harness/nodes.js';
import { dropPageCache } from '../harness/page-cache.js';
import type { NamedServer } from '../servers/kinds.js';
import { FETCH_CONCURRENCIES } from './paper.js';
import { type Plan, SMALL, trackersOf, type Where } from './plan.js';
import type { Keeps } from './targets.js';
import { WebServer } from './web-server.js';
import type { FetchResult, LoadCost, TargetChoice } from './web-server-process.js';

/**
 * Fetches of stored files, drawn at random and compared with what was stored: uploaded one by one,
 * and merged, with what the SDK keeps locally by default, with half of the bytes, and with nothing,
 * so that every fetch is a ranged download. Cold: the system's page cache is emptied before each
 * pass, and no file is fetched twice in it, as where the data is larger than the memory.
 */

/** `none`: not merged. */
export type FetchKind = 'none' | Keeps;

export interface FetchVariant {
  readonly kind: FetchKind;
  readonly where: Where;
}

export type Warmth = 'warm' | 'cold';

const VARIANTS: readonly FetchVariant[] = [
  { kind: 'none', where: 'ours' },
  { kind: 'default', where: 'ours' },
  { kind: 'half', where: 'ours' },
  { kind: 'nothing', where: 'ours' },
  { kind: 'none', where: 'fastdfs' },
  { kind: 'none', where: 'fastdfs-trunk' },
  { kind: 'nothing', where: 'fastdfs' },
];

export function fetchVariants(servers: readonly NamedServer[]): readonly FetchVariant[] {
  return VARIANTS.filter(({ where }) => where === 'ours' || trackersOf(where, servers));
}

export function fetchId({ kind, where }: FetchVariant, warmth: Warmth, c: number): string {
  return `fetch.${warmth}.${where}.${kind}.c${c}`;
}

/** Warm, beside files of the same cluster that are not merged. */
export function fetchRatioId(kind: Keeps, where: Where, c: number): string {
  return `fetch.${where}.${kind}-vs-none.c${c}`;
}

/** Stored bytes that the web server's disk has. */
export function localId({ kind, where }: FetchVariant): string {
  return `fetch.${where}.${kind}.local`;
}

const WARM_UP_CONCURRENCY = 20;
export const COLD_CONCURRENCIES = [FETCH_CONCURRENCIES[0], FETCH_CONCURRENCIES[3]];

/** A variant's processes, with the files in place. */
interface Subject {
  readonly variant: FetchVariant;
  readonly webServer: WebServer;
  /** Undefined for a named cluster. */
  readonly node: Nodes | undefined;
  readonly directories: readonly string[];
}

/** The result is true if fetches were measured cold, too. */
export async function measureFetching(
  context: BenchmarkContext,
  plan: Plan,
  cost: LoadCost,
): Promise<boolean> {
  const canDrop = await dropPageCache();
  for (let run = 1; run <= plan.runs; run += 1) {
    context.progress(`fetches, run ${run} of ${plan.runs}`);
    const subjects: Subject[] = [];
    try {
      for (const variant of fetchVariants(context.servers)) subjects.push(begin(context, variant));
      for (const subject of subjects) await fill(context, plan, subject);
      for (const concurrency of FETCH_CONCURRENCIES) {
        for (const subject of subjects) {
          await measure(context, plan, subject, { warmth: 'warm', concurrency, run }, cost);
        }
        addRatios(context, concurrency);
      }
      for (const concurrency of canDrop ? COLD_CONCURRENCIES : []) {
        for (const subject of subjects) {
          await dropPageCache();
          await measure(context, plan, subject, { warmth: 'cold', concurrency, run }, cost);
        }
      }
    } finally {
      await Promise.all(subjects.map((subject) => end(context, subject)));
    }
  }
  return canDrop;
}

function begin({ workspace }: BenchmarkContext, variant: FetchVariant): Subject {
  const webServer = new WebServer();
  const node = variant.where === 'ours' ? new Nodes() : undefined;
  const directories = [workspace.fresh('node'), workspace.fresh('staging')];
  return { variant, webServer, node, directories };
}

async function fill(
  { servers, figures }: BenchmarkContext,
  plan: Plan,
  { variant, webServer, node, directories }: Subject,
): Promise<void> {
  const { kind, where } = variant;
  const [nodeDirectory = '', directory = ''] = directories;
  const trackers = node ? [await node.cluster(nodeDirectory)] : trackersOf(where, servers)!;
  await webServer.prepare(SMALL, plan.fetchBytes);
  const connections = Math.max(...FETCH_CONCURRENCIES);
  const choiceOf = (keeps: Keeps): TargetChoice => ({
    ...{ kind: 'merging', trackers, directory, connections, keeps, bytes: plan.fetchBytes },
  });
  await webServer.open(
    kind === 'none' ? { kind: 'direct', trackers, connections } : choiceOf('default'),
  );
  await webServer.call('fill');
  if (kind !== 'none' && kind !== 'default') {
    // Opened again: how much is kept is decided then.
    await webServer.call('close');
    await webServer.open(choiceOf(kind));
  }
  const warmUp = { concurrency: WARM_UP_CONCURRENCY, seconds: plan.warmUpSeconds, seed: 0 };
  await webServer.call('fetch', { ...warmUp, isOnce: false });
  if (kind === 'none') return;
  figures.add(localId(variant), 'MB', (await webServer.call('localBytes')) / 1e6);
}

async function measure(
  { figures }: BenchmarkContext,
  plan: Plan,
  { variant, webServer, node }: Subject,
  { warmth, concurrency, run }: { warmth: Warmth; concurrency: number; run: number },
  cost: LoadCost,
): Promise<void> {
  const before = await node?.cpuSeconds();
  const result: FetchResult = await webServer.call('fetch', {
    ...{ concurrency, seconds: plan.fetchSeconds, seed: run * 1000 + concurrency },
    isOnce: warmth === 'cold',
  });
  const after = await node?.cpuSeconds();
  const { fetches, bytes, seconds, cpuSeconds } = result;
  const id = fetchId(variant, warmth, concurrency);
  figures.add(`${id}.fetches`, 'fetches/s', fetches / seconds);
  figures.add(`${id}.MBps`, 'MB/s', bytes / 1e6 / seconds);
  figures.add(`${id}.cpu`, 'µs', (1e6 * cpuSeconds) / fetches - 1e6 * cost.cpuSecondsPerFetch);
  if (before === undefined || after === undefined) return;
  figures.add(`${id}.cpu.storage`, 'µs', (1e6 * (after - before)) / fetches);
}

/** Of this run: what slows the machine for a while slows both. */
function addRatios({ figures, servers }: BenchmarkContext, concurrency: number): void {
  const last = (variant: FetchVariant) =>
    figures.values(`${fetchId(variant, 'warm', concurrency)}.fetches`).at(-1)!;
  for (const { kind, where } of fetchVariants(servers)) {
    if (kind === 'none') continue;
    const ratio = last({ kind, where }) / last({ kind: 'none', where });
    figures.add(fetchRatioId(kind, where, concurrency), 'times', ratio);
  }
}

async function end({ workspace }: BenchmarkContext, subject: Subject): Promise<void> {
  const { variant, webServer, node, directories } = subject;
  if (variant.where !== 'ours') {
    await webServer.call('removeAll').catch((error: Error) => {
      process.stderr.write(`bench: files were left in the named cluster: ${error.message}\n`);
    });
  }
  await webServer[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  for (const directory of directories) await workspace.remove(directory);
}
