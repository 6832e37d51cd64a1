import type { LoadHandlers } from '../gateway/load-process.js';
import { drawn } from '../gateway/measure.js';
import { PLAIN_CPU_RATIO, PLAIN_DOWNLOAD_RATIO, PLAIN_UPLOAD_RATIO } from '../gateway/plan.js';
import type { Benchmark, BenchmarkContext, Part } from '../harness/benchmark.js';
import { remarkOn, type Scale } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { atLeast, atMost, type Goal, medianOf } from '../harness/goals.js';
import { lineChart } from '../harness/line-chart.js';
import { round, spread, table } from '../harness/markdown.js';
import { settled } from '../harness/waiting.js';
import { measureClients } from './fastdfs-clients.js';
import { acknowledges } from './kinds.js';
import { CONNECTIONS, PLANS, type Plan, WORKLOADS, type Workload } from './plan.js';
import { openNamed, type Subject, startOwn } from './subjects.js';

/**
 * The gateway beside a plain node:http and beside the servers that are named by their addresses,
 * in one run and in turns.
 */
export const servers: Benchmark = {
  durability: 'plain and gateway: sync; the others: see the first table of the report',
  packages: ['autocannon', 'fdfs'],
  introduce,
  parts: (scale) => ({
    ...Object.fromEntries(WORKLOADS.map((workload) => [workload, part(scale, workload)])),
    clients: { goals: [], run: (context) => measureClients(context, PLANS[scale]) },
  }),
};

const TITLES: Readonly<Record<Workload, string>> = {
  upload: 'Uploads of 20 KB, each of other bytes',
  fresh: "Downloads of files that were just uploaded, 2 to 100 KB, by Zipf's law (0.9)",
  uniform: 'Downloads of the same files in random order, the gateway with a cache for a tenth',
};

function introduce({ print, scale, servers: named }: BenchmarkContext): void {
  const { turns, seconds, files } = PLANS[scale];
  const rows = named.map((server) => [server.kind, acknowledges(server)]);
  print(
    `${turns} turns${remarkOn(scale)} of ${seconds} s for each server, one after the other, with ${files} files to download. The load is autocannon in a process of its own, which compares every byte that comes back. *plain* is node:http with appends, group fdatasync and every file in a Map. CPU of a named server is that of the processes which listen at its address, where that is this machine; a master, and whatever else works for it, is not counted.`,
  );
  if (rows.length > 0) print(table(['Server', 'an answered upload is'], rows));
}

function part(scale: Scale, workload: Workload): Part {
  const run = async (context: BenchmarkContext) => {
    await measure(context, PLANS[scale], workload);
    await show(context, workload);
  };
  return { goals: goalsOf(workload), run };
}

/** The gateway against node:http, which every run has. */
function goalsOf(workload: Workload): readonly Goal[] {
  const ratio = (connections: number, what: string) =>
    figureId(workload, 'plain', connections, `gateway-${what}`);
  if (workload === 'uniform') return [];
  return CONNECTIONS[workload].flatMap((connections) => {
    const rate = ratio(connections, 'rate');
    const cpu = ratio(connections, 'cpu-per-request');
    const isUpload = workload === 'upload';
    const least = isUpload ? PLAIN_UPLOAD_RATIO : PLAIN_DOWNLOAD_RATIO;
    const what = `${workload} at ${connections} connections`;
    const isFast = `${what}: at least ${least} x node:http`;
    const isLean = `${what}: at most ${PLAIN_CPU_RATIO} x the CPU of node:http`;
    return [
      ...(isUpload && connections > 20 ? [] : [atLeast(rate, isFast, least, medianOf(rate))]),
      ...(isUpload && connections >= 20
        ? [atMost(cpu, isLean, PLAIN_CPU_RATIO, medianOf(cpu))]
        : []),
    ];
  });
}

function figureId(workload: Workload, server: string, connections: number, what: string): string {
  return `${workload}.${server}.c${connections}.${what}`;
}

type Load = Child<LoadHandlers>;

async function measure(context: BenchmarkContext, plan: Plan, workload: Workload): Promise<void> {
  const own = await settled([
    startOwn('plain', context.workspace),
    startOwn('gateway', context.workspace),
  ]);
  const subjects = [...own, ...context.servers.flatMap((named) => openNamed(named) ?? [])];
  try {
    await using load: Load = new Child(
      'load',
      new URL('../gateway/load-process.js', import.meta.url),
    );
    await measureAll(context, plan, workload, load, subjects);
  } finally {
    await settled(own.map(async (server) => server[Symbol.asyncDispose]()));
  }
}

async function measureAll(
  context: BenchmarkContext,
  plan: Plan,
  workload: Workload,
  load: Load,
  subjects: readonly Subject[],
): Promise<void> {
  for (const subject of subjects) {
    context.progress(`${workload}: ${subject.name} is filled and warmed up`);
    if (workload !== 'upload') {
      await subject.fill(plan.files, (server, files) => load.call('store', { server, files }));
    }
    if (workload === 'uniform') await subject.shrinkCache();
    await run(load, plan, workload, subject, CONNECTIONS[workload].at(-1)!, plan.warmUpSeconds);
  }
  for (const connections of CONNECTIONS[workload]) {
    for (let turn = 0; turn < plan.turns; turn += 1) {
      context.progress(`${workload}, ${connections} connections, turn ${turn + 1}`);
      for (const subject of turn % 2 === 0 ? subjects : subjects.toReversed()) {
        await measureOne(context, plan, workload, load, subject, connections);
      }
      addRatios(context, workload, connections, subjects);
    }
  }
}

async function run(
  load: Load,
  { requests, files: count }: Plan,
  workload: Workload,
  subject: Subject,
  connections: number,
  seconds: number,
) {
  const { files } = subject;
  const server = workload === 'upload' ? await subject.forUploads(requests) : subject.server;
  const order = workload === 'upload' ? [] : drawn(files, requests, workload === 'fresh');
  if (workload !== 'upload' && count === 0) throw new Error('there are no files');
  return load.call('run', { server, files: order, connections, seconds });
}

async function measureOne(
  { figures }: BenchmarkContext,
  plan: Plan,
  workload: Workload,
  load: Load,
  subject: Subject,
  connections: number,
): Promise<void> {
  const before = await subject.cpuSeconds();
  const result = await run(load, plan, workload, subject, connections, plan.seconds);
  const after = await subject.cpuSeconds();
  const { requests, seconds, cpuSeconds, p50Ms, p99Ms } = result;
  const add = (what: string, unit: string, value: number) =>
    figures.add(figureId(workload, subject.name, connections, what), unit, value);
  add('rate', 'requests/s', requests / seconds);
  add('load-cpu', 'cores', cpuSeconds / seconds);
  add('p50', 'ms', p50Ms);
  add('p99', 'ms', p99Ms);
  if (before === undefined || after === undefined) return;
  add('cpu-per-request', 'us', ((after - before) / requests) * 1e6);
}

/** Of the gateway to each other, in the last turn. */
function addRatios(
  { figures }: BenchmarkContext,
  workload: Workload,
  connections: number,
  subjects: readonly Subject[],
): void {
  const last = (server: string, what: string) => {
    const id = figureId(workload, server, connections, what);
    return figures.has(id) ? figures.values(id).at(-1)! : Number.NaN;
  };
  for (const { name } of subjects) {
    if (name === 'gateway') continue;
    for (const what of ['rate', 'cpu-per-request']) {
      const ratio = last('gateway', what) / last(name, what);
      if (!Number.isFinite(ratio)) continue;
      figures.add(figureId(workload, name, connections, `gateway-${what}`), 'times', ratio);
    }
  }
}

async function show(
  { figures, print, chart, servers: named }: BenchmarkContext,
  workload: Workload,
) {
  const names = ['plain', 'gateway', ...named.map(({ kind }) => kind)].filter((name) =>
    figures.has(figureId(workload, name, CONNECTIONS[workload][0]!, 'rate')),
  );
  const median = (name: string, connections: number, what: string) => {
    const id = figureId(workload, name, connections, what);
    return figures.has(id) ? figures.summary(id).median : undefined;
  };
  const text = (value: number | undefined) => (value === undefined ? '' : round(value));
  const rows = CONNECTIONS[workload].flatMap((connections) =>
    names.map((name) => [
      `${name}, ${connections}`,
      spread(figures.summary(figureId(workload, name, connections, 'rate'))),
      text(median(name, connections, 'gateway-rate')),
      text(median(name, connections, 'cpu-per-request')),
      text(median(name, connections, 'gateway-cpu-per-request')),
      text(median(name, connections, 'p50')),
      text(median(name, connections, 'p99')),
      text(median(name, connections, 'load-cpu')),
    ]),
  );
  const head = [
    'Server, connections',
    'requests/s',
    'gateway to it',
    'us user+sys',
    'gateway to it',
    'p50 ms',
    'p99 ms',
    'load, cores',
  ];
  print(`## ${TITLES[workload]}\n\n${table(head, rows)}`);
  await chart(
    `servers-${workload}.svg`,
    lineChart({
      title: TITLES[workload],
      xTitle: 'connections',
      yTitle: 'requests per second',
      labels: CONNECTIONS[workload].map(String),
      series: names.map((name) => ({
        name,
        values: CONNECTIONS[workload].map((connections) => median(name, connections, 'rate')),
      })),
    }),
  );
}
