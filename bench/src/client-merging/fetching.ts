import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Keeps } from '../client/targets.js';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { Closing } from '../harness/closing.js';
import { atLeast, type Goal, leastOf } from '../harness/goals.js';
import { type Column, middle, spread } from '../harness/markdown.js';
import { type Running, start } from '../harness/processes.js';
import { type NamedServer, trackersOf } from '../servers/kinds.js';
import { startWebServer, withStorageCpu } from './machines.js';
import {
  FETCH_CONCURRENCIES,
  isThere,
  type LoadCost,
  PAPER,
  type Plan,
  SEED,
  SMALL,
  sound,
  takesPart,
  type Where,
  WIRES,
  type WireName,
} from './plan.js';

/**
 * Table 2: fetches of stored files, drawn at random and compared with what was stored: uploaded one
 * by one, and merged, with what the SDK keeps locally by default, with half of the bytes, and with
 * nothing, so that every fetch is a ranged download. Cold: the system's page cache is emptied before
 * each pass, and no file is fetched twice in it, as where the data is larger than the memory.
 */

interface Variant {
  /** Undefined: not merged. */
  readonly keeps: Keeps | undefined;
  readonly where: Where;
  readonly title: string;
}

const VARIANTS: readonly Variant[] = [
  { keeps: undefined, where: 'ours', title: 'no merging, our storage' },
  {
    ...{ keeps: 'default', where: 'ours' },
    title: 'client merging, as configured by default, our storage',
  },
  { keeps: 'half', where: 'ours', title: 'client merging, half local, our storage' },
  { keeps: 'nothing', where: 'ours', title: 'client merging, nothing local, our storage' },
  { keeps: undefined, where: 'fastdfs', title: 'no merging, FastDFS' },
  { keeps: undefined, where: 'fastdfs-trunk', title: "FastDFS's own merging" },
  { keeps: 'nothing', where: 'fastdfs', title: 'client merging, nothing local, FastDFS' },
];

function idOf({ keeps, where }: Variant): string {
  return `${where}.${keeps ?? 'direct'}`;
}

const WARM_UP_CONCURRENCY = 20;
const COLD_CONCURRENCIES = [20, 200] as const;

export function fetchGoals(servers: readonly NamedServer[]): readonly Goal[] {
  const clusters = (['ours', 'fastdfs'] as const).filter((where) => isThere(where, servers));
  return clusters.map((where) =>
    atLeast(
      `fetch.${where}.nothing-local`,
      `fetches of merged files, nothing local, ${where === 'ours' ? 'our storage' : 'FastDFS'}: at least {} x no merging`,
      1.28,
      leastOf(FETCH_CONCURRENCIES.map((c) => `fetch.warm.c${c}.${where}.nothing.vs-direct`)),
    ),
  );
}

/** A variant's processes, with the files in place; no node for a named cluster. */
interface Subject {
  readonly variant: Variant;
  readonly webServer: Running<'client/storing'>;
  readonly node: Running<'harness/nodes'> | undefined;
  trackers: readonly string[];
}

export async function measureFetching(
  context: BenchmarkContext,
  plan: Plan,
  cost: LoadCost,
  wireName: WireName | undefined,
): Promise<void> {
  const { figures } = context;
  const wire = wireName && WIRES[wireName];
  const [series, concurrencies] = wireName ? [wireName, plan.wired] : ['warm', FETCH_CONCURRENCIES];
  const canDrop = !wire && (await dropPageCache());
  const variants = VARIANTS.filter(
    ({ where, keeps }) =>
      takesPart(where, wire, context.servers) &&
      (!wire || keeps === undefined || keeps === 'nothing'),
  );
  await context.runs('fetches', plan.runs, async (run) => {
    await using closing = new Closing();
    const subjects: Subject[] = [];
    for (const variant of variants) {
      const node = variant.where === 'ours' ? closing.use(start('harness/nodes')) : undefined;
      const webServer = await startWebServer(closing, wire);
      if (!node) closing.use({ [Symbol.asyncDispose]: () => removeAll(webServer) });
      subjects.push({ variant, webServer, node, trackers: [] });
    }
    const measure = async (warmth: string, concurrency: number, subject: Subject) => {
      const { webServer, node, variant, trackers } = subject;
      const load = { concurrency, maxSeconds: plan.fetchSeconds };
      const [fetched, storageSeconds] = await withStorageCpu(node, trackers, () =>
        webServer.call('fetch', load, run * 1000 + concurrency, warmth === 'cold'),
      );
      const { operations, bytes, seconds, cpuSeconds } = sound(fetched);
      figures.addAll(`fetch.${warmth}.c${concurrency}.${idOf(variant)}`, {
        fetches: [operations / seconds, 'fetches/s'],
        MBps: [bytes / 1e6 / seconds, 'MB/s'],
        cpu: [1e6 * (cpuSeconds / operations - cost.perFetch), 'µs'],
        storage: [storageSeconds && (1e6 * storageSeconds) / operations, 'µs'],
      });
    };
    for (const subject of subjects) await fill(context, plan, subject);
    for (const c of concurrencies) {
      for (const subject of subjects) {
        await measure(series, c, subject);
        const { where, keeps } = subject.variant;
        if (keeps === undefined) continue;
        const at = `fetch.${series}.c${c}`;
        const id = `${at}.${idOf(subject.variant)}`;
        figures.addRatio(`${id}.vs-direct`, `${id}.fetches`, `${at}.${where}.direct.fetches`);
        const own = `${at}.fastdfs-trunk.direct.fetches`;
        figures.addRatio(`${id}.vs-own`, `${id}.fetches`, own);
      }
    }
    for (const c of canDrop ? COLD_CONCURRENCIES : []) {
      for (const subject of subjects) {
        await dropPageCache();
        await measure('cold', c, subject);
      }
    }
  });
  show(context, { series, concurrencies, title: wire?.title, variants, canDrop });
}

async function fill(
  { servers, figures, workspace }: BenchmarkContext,
  { bytes, warmUpSeconds }: Plan,
  subject: Subject,
): Promise<void> {
  const { variant, webServer, node } = subject;
  const { keeps, where } = variant;
  const own = await node?.call('group', workspace.fresh('node'));
  const trackers = own === undefined ? (trackersOf(where, servers) ?? []) : [own];
  subject.trackers = trackers;
  await webServer.call('prepare', { ...SMALL, seed: SEED, totalBytes: bytes });
  const connections = Math.max(...FETCH_CONCURRENCIES);
  const directory = workspace.fresh('staging');
  const open = async (kept: Keeps | undefined) => {
    const target = { trackers, connections };
    const sdk = { client: 'sdk', directory, bytes } as const;
    const client =
      kept === undefined ? ({ client: 'stevedore' } as const) : { ...sdk, keeps: kept };
    await webServer.call('open', { ...target, ...client });
  };
  await open(keeps && 'default');
  sound(await webServer.call('fill', { concurrency: WARM_UP_CONCURRENCY }));
  if (keeps !== undefined && keeps !== 'default') {
    // Opened again: how much is kept is decided then.
    await webServer.call('close');
    await open(keeps);
  }
  const warmUp = { concurrency: WARM_UP_CONCURRENCY, maxSeconds: warmUpSeconds };
  sound(await webServer.call('fetch', warmUp, 0));
  if (keeps === undefined) return;
  figures.add(`fetch.${idOf(variant)}.local`, 'MB', (await webServer.call('localBytes')) / 1e6);
}

async function removeAll(webServer: Running<'client/storing'>): Promise<void> {
  await webServer.call('removeAll').catch((error: Error) => {
    process.stderr.write(`bench: files were left in the named cluster: ${error.message}\n`);
  });
}

/** Empties the system's page cache; false where that is not allowed: it needs Linux and root. */
async function dropPageCache(): Promise<boolean> {
  try {
    await promisify(execFile)('sync');
    await writeFile('/proc/sys/vm/drop_caches', '3');
    return true;
  } catch {
    return false;
  }
}

interface Shown {
  readonly series: string;
  readonly concurrencies: readonly number[];
  /** Of the wire. */
  readonly title: string | undefined;
  readonly variants: readonly Variant[];
  readonly canDrop: boolean;
}

function show(
  { print, table }: BenchmarkContext,
  { series, concurrencies, title, variants, canDrop }: Shown,
): void {
  const over = title === undefined ? '' : `, over a wire of ${title}`;
  const name = title === undefined ? 'fetch' : `fetch-${series}`;
  const head = 'At a time';
  const rowsOf = (warmth: string, concurrencies: readonly number[]) =>
    concurrencies.map((c) => [String(c), `fetch.${warmth}.c${c}`] as const);
  const columns = (what: string, format = spread) =>
    variants.map((each): Column => [each.title, `${idOf(each)}.${what}`, format]);
  const rows = rowsOf(series, concurrencies);
  print(
    `## Fetches${over}\n\nFetches/s, median (least–greatest); every file was compared with what was stored:`,
  );
  table(name, {
    ...{ head, rows, columns: columns('fetches') },
    chart: { title: `Fetches of 2 to 100 KB${over}`, yTitle: 'fetches/s' },
  });
  if (canDrop) {
    print('Cold: the page cache was emptied, and no file was fetched twice:');
    const cold = rowsOf('cold', COLD_CONCURRENCIES);
    table('fetch-cold', { head, rows: cold, columns: columns('fetches') });
  }
  const merged = variants.filter(({ keeps }) => keeps !== undefined);
  if (title === undefined) {
    print("MB on the web server's own disk:");
    table('fetch-local', {
      head: '',
      rows: merged.map((each) => [each.title, `fetch.${idOf(each)}`]),
      columns: [['MB', 'local']],
    });
  }
  print("Times no merging on the same storage, and times FastDFS's own merging:");
  const paper = (which: 'own' | 'merging') =>
    PAPER.fetch[which].map((value, at) => (value / (PAPER.fetch.direct[at] ?? 1)).toFixed(2));
  const hasOwn = variants.some(({ where }) => where === 'fastdfs-trunk');
  table(`${name}-ratios`, {
    head,
    rows,
    columns: merged.flatMap((each): Column[] => [
      [each.title, `${idOf(each)}.vs-direct`],
      ...(hasOwn ? [['to own merging', `${idOf(each)}.vs-own`] as const] : []),
    ]),
    known: [
      ["paper's client merging", paper('merging').join(', ')],
      ["paper's own merging", paper('own').join(', ')],
    ],
  });
  print("CPU of one fetch in the web server (without the load's own), µs:");
  table(`${name}-cpu`, { head, rows, columns: columns('cpu', middle) });
  print('And in tracker and storage:');
  table(`${name}-storage-cpu`, { head, rows, columns: columns('storage', middle) });
}
