import {
  type Benchmark,
  type BenchmarkContext,
  type Part,
  remarkOn,
} from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { inTurn, settled } from '../harness/load.js';
import { type Column, middle, table } from '../harness/markdown.js';
import { bytesReadBy, type THREADS, threadSecondsOf } from '../harness/process-cpu.js';
import { acknowledges } from './kinds.js';
import type { LoadHandlers, LoadResult } from './load-process.js';
import {
  cacheBytesFor,
  contents,
  drawn,
  figureId,
  goalsOf,
  PLANS,
  type Plan,
  SCENARIOS,
  type Scenario,
  type ScenarioName,
} from './scenarios.js';
import { openNamed, type Subject, startOwn } from './subjects.js';

/**
 * The gateway beside a plain node:http and beside the servers that are named by their addresses,
 * in one run and in turns.
 */
export const servers: Benchmark = {
  durability: 'plain and gateway: sync; the others: see the first table of the report',
  packages: ['autocannon'],
  introduce({ scale, servers: named }) {
    const { turns, seconds, uploadSeconds, uploadsBefore } = PLANS[scale];
    const text = `${turns} turns${remarkOn(scale)} of ${seconds} s for each server, uploads of ${uploadSeconds} s after ${uploadsBefore} others, so that memory is as full as after days. The gateway is started by its command; nothing is merged meanwhile. *plain* is node:http with appends and one fdatasync for all that arrived together; it keeps files that are downloaded in a Map, and uploads nowhere. *checked* is the gateway with an API key with rate and quota, a policy with types and first bytes, and signed URLs. The load is autocannon in a process of its own, which compares every byte that comes back. CPU is user and system time of all processes of a server, on Linux, and by its threads: the event loop, those of V8 (compiler, garbage collector), and the others (disk). Of a named server it is that of the processes which listen at its address, where that is this machine.`;
    const rows = named.map((server) => [server.kind, acknowledges(server)]);
    return rows.length === 0
      ? text
      : `${text}\n\n${table(['Server', 'an answered upload is'], rows)}`;
  },
  parts: (scale) => {
    const plan = PLANS[scale];
    const part = (name: ScenarioName): Part => ({
      goals: goalsOf(name),
      run: (context) => measure(context, plan, name),
    });
    const scenarios = Object.keys(SCENARIOS).map((name) => [name, part(name as ScenarioName)]);
    return Object.fromEntries(scenarios);
  },
};

/** What one scenario is measured with. */
interface Setting {
  readonly name: ScenarioName;
  readonly scenario: Scenario;
  readonly plan: Plan;
  readonly load: Child<LoadHandlers>;
}

async function measure(context: BenchmarkContext, plan: Plan, name: ScenarioName): Promise<void> {
  const scenario: Scenario = SCENARIOS[name];
  const options = {
    takesUploadsOnly: !scenario.downloads && scenario.own[0] === 'plain',
    isPinned: scenario.isPinned ?? false,
  };
  const subjects: Subject[] = [];
  await using load = new Child<LoadHandlers>(new URL('./load-process.js', import.meta.url));
  if (options.isPinned) await load.call('pin', 1);
  try {
    for (const own of scenario.own) {
      subjects.push(await startOwn(own, context.workspace, options));
    }
    if (scenario.isOpen) subjects.push(...context.servers.flatMap(openNamed));
    const setting = { name, scenario, plan, load };
    for (const subject of subjects) {
      context.progress(`${name}: ${subject.name} is filled and warmed up`);
      await prepare(setting, subject);
    }
    await measureAll(context, setting, subjects);
  } finally {
    await settled(subjects.map(async (subject) => subject[Symbol.asyncDispose]()));
  }
  await show(context, name, subjects);
}

const WARM_UP_CONNECTIONS = 50;
/** Of hot files: connections meet other workers each time, so that all have all files in memory. */
const WARM_UP_ROUNDS = 12;

/** Two processes, each with half of the requests, take longer to compile what they run. */
const WORKERS_WARM_UP = 4;

async function prepare({ scenario, plan, load }: Setting, subject: Subject): Promise<void> {
  const { downloads, restarts, own } = scenario;
  if (!downloads) {
    const target = await subject.forUploads(plan.uploadsBefore);
    const much =
      own[0] === 'plain'
        ? { requests: plan.uploadsBefore }
        : { seconds: plan.warmUpSeconds * WORKERS_WARM_UP };
    await load.call('run', { target, files: [], connections: WARM_UP_CONNECTIONS, ...much });
    return;
  }
  const count = downloads === 'popular' || downloads === 'random' ? plan.files : plan.hotFiles;
  const turns = downloads === 'once' ? plan.turns + 2 : 1;
  await subject.fill(contents(count * turns), (options) => load.call('store', options));
  if (restarts) await subject.restart(restarts === 'cache' ? cacheBytesFor(count) : undefined);
  const run = (seconds: number | undefined, turn: number) =>
    load.call('run', {
      files: drawn(subject.files, downloads, turn, plan),
      ...{ target: subject.target, connections: WARM_UP_CONNECTIONS, seconds },
    });
  if (downloads === 'once') {
    for (const turn of [plan.turns, plan.turns + 1]) await run(undefined, turn);
    return;
  }
  const rounds = downloads === 'hot' ? WARM_UP_ROUNDS : 0;
  for (let round = 0; round < rounds; round += 1) await run(undefined, 0);
  await run(plan.warmUpSeconds, 0);
}

async function measureAll(
  context: BenchmarkContext,
  setting: Setting,
  subjects: readonly Subject[],
): Promise<void> {
  const { name, scenario, plan } = setting;
  for (const connections of scenario.connections) {
    for (let turn = 0; turn < plan.turns; turn += 1) {
      context.progress(`${name}, ${connections} connections, turn ${turn + 1} of ${plan.turns}`);
      for (const subject of inTurn(turn, subjects)) {
        await measureOne(context, setting, subject, connections, turn);
      }
      for (const subject of subjects.slice(1)) {
        const id = (server: string, what: string) => figureId(name, server, connections, what);
        for (const what of ['rate', 'cpu']) {
          const ratio = id(subject.name, `${what}-ratio`);
          context.figures.addRatio(ratio, id(subject.name, what), id(scenario.own[0], what));
        }
      }
    }
  }
}

async function measureOne(
  { figures }: BenchmarkContext,
  { name, scenario, plan, load }: Setting,
  subject: Subject,
  connections: number,
  turn: number,
): Promise<void> {
  const { downloads } = scenario;
  const target = downloads ? subject.target : await subject.forUploads(plan.requests);
  const files = downloads ? drawn(subject.files, downloads, turn, plan) : [];
  const turnSeconds = downloads ? plan.seconds : plan.uploadSeconds;
  const seconds = downloads === 'once' ? undefined : turnSeconds;
  const before = usageOf(subject);
  const result: LoadResult = await load.call('run', { target, files, connections, seconds });
  const after = usageOf(subject);
  const { requests, p50Ms, p99Ms } = result;
  const perRequest = (what: keyof Usage, factor: number, least = 0) => {
    const [from, to] = [before[what], after[what]];
    if (from === undefined || to === undefined) return undefined;
    return (Math.max(least, to - from) / requests) * factor;
  };
  figures.addAll(`${name}.${subject.name}.c${connections}`, {
    rate: [requests / result.seconds, 'requests/s'],
    cpu: [perRequest('cpu', 1e6, TICK_SECONDS), 'us'],
    main: [perRequest('main', 1e6), 'us'],
    v8: [perRequest('v8', 1e6), 'us'],
    pool: [perRequest('pool', 1e6), 'us'],
    read: [perRequest('read', 1e-3), 'kB'],
    p50: [p50Ms, 'ms'],
    p99: [p99Ms, 'ms'],
    'load-cpu': [result.cpuSeconds / result.seconds, 'cores'],
  });
}

/** Of the clock of CPU: a turn that is shorter took no more than this. */
const TICK_SECONDS = 0.01;

/** So far: seconds of CPU, and bytes that were read. */
type Usage = Readonly<Partial<Record<'cpu' | 'read' | (typeof THREADS)[number], number>>>;

function usageOf(subject: Subject): Usage {
  const cpu = subject.cpuSeconds();
  const read = subject.pid > 0 ? bytesReadBy(subject.pid) : undefined;
  const threads = subject.pid > 0 ? threadSecondsOf(subject.pid) : undefined;
  return { ...(cpu !== undefined && { cpu }), ...(read !== undefined && { read }), ...threads };
}

const columnsTo = (first: string): readonly Column[] => [
  ['requests/s', 'rate'],
  [`to ${first}`, 'rate-ratio'],
  ['us CPU', 'cpu', middle],
  [`to ${first}`, 'cpu-ratio'],
  ['event loop', 'main', middle],
  ['V8', 'v8', middle],
  ['others', 'pool', middle],
  ['read, kB', 'read', middle],
  ['p50 ms', 'p50', middle],
  ['p99 ms', 'p99', middle],
  ['load, cores', 'load-cpu', middle],
];

async function show(context: BenchmarkContext, name: ScenarioName, subjects: readonly Subject[]) {
  const { title, connections, own }: Scenario = SCENARIOS[name];
  context.print(`## ${title}`);
  context.table(name, {
    head: 'Server, connections',
    columns: columnsTo(own[0]),
    rows: connections.flatMap((count) =>
      subjects.map((subject): readonly [string, string] => [
        `${subject.name}, ${count}`,
        `${name}.${subject.name}.c${count}`,
      ]),
    ),
  });
  await context.chart(name, {
    ...{ title, xTitle: 'connections', yTitle: 'requests per second' },
    labels: connections.map(String),
    series: subjects.map((subject) => ({
      name: subject.name,
      values: connections.map((count) => figureId(name, subject.name, count, 'rate')),
    })),
  });
}
