import type { Benchmark, BenchmarkContext, Part } from '../harness/benchmark.js';
import { Closing } from '../harness/closing.js';
import { inTurn } from '../harness/load.js';
import { type Column, middle, table } from '../harness/markdown.js';
import { ioOf, type THREADS, threadSecondsOf } from '../harness/process-cpu.js';
import { type Running, start } from '../harness/processes.js';
import type { Stored } from './content.js';
import { acknowledges } from './kinds.js';
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
import { openNamed, type Store, type Subject, startOwn } from './subjects.js';

/**
 * The gateway beside a plain node:http and beside the servers that are named by their addresses,
 * in one run and in turns.
 */
export const servers: Benchmark = {
  durability: 'plain and gateway: sync; the others: see the first table of the report',
  packages: ['autocannon'],
  introduce({ scale, servers: named }) {
    const { turns, seconds, uploadSeconds, uploadsBefore } = PLANS[scale];
    const text = `${turns} turns of ${seconds} s for each server, uploads of ${uploadSeconds} s after ${uploadsBefore} others, so that memory is as full as after days. The gateway is started by its command. In the first table, and where downloads are popular, it runs with its defaults and merges; CPU counts until FastDFS, in the same process, has the files. In the others nothing is merged meanwhile. *plain* is node:http with appends and one fdatasync for all that arrived together; it keeps files that are downloaded in a Map, and uploads nowhere. *checked* is the gateway with an API key with rate and quota, a policy with types and first bytes, and signed URLs. The load is autocannon in a process of its own, which compares every byte that comes back. CPU is user and system time of all processes of a server, on Linux, and by its threads: the event loop, those of V8 (compiler, garbage collector), and the others (disk). Of a named server it is that of the processes which listen at its address, where that is this machine.`;
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

/** What one scenario is measured with; `files`: that each subject has. */
interface Setting {
  readonly name: ScenarioName;
  readonly scenario: Scenario;
  readonly plan: Plan;
  readonly load: Running<'servers/load'>;
  readonly files: Map<Subject, readonly Stored[]>;
}

async function measure(context: BenchmarkContext, plan: Plan, name: ScenarioName): Promise<void> {
  const scenario: Scenario = SCENARIOS[name];
  const { own, downloads, isMerging = false, isOpen } = scenario;
  await using closing = new Closing();
  const load = closing.use(start('servers/load'));
  const subjects: Subject[] = [];
  for (const each of own) {
    const takesUploadsOnly = !downloads && own[0] === 'plain';
    const options = { directory: context.workspace.fresh(each), closing };
    subjects.push(await startOwn(each, { ...options, takesUploadsOnly, isMerging }));
  }
  if (isOpen) subjects.push(...context.servers.flatMap(openNamed));
  const setting = { name, scenario, plan, load, files: new Map<Subject, readonly Stored[]>() };
  for (const subject of subjects) {
    context.progress(`${name}: ${subject.name} is filled and warmed up`);
    await prepare(setting, subject);
  }
  await measureAll(context, setting, subjects);
  show(context, name, subjects);
}

const WARM_UP_CONNECTIONS = 50;
/** Two processes, each with half of the requests, take longer to compile what they run. */
const WORKERS_WARM_UP = 4;

async function prepare(setting: Setting, subject: Subject): Promise<void> {
  const { scenario, plan, load } = setting;
  const { downloads, restarts, own } = scenario;
  const connections = WARM_UP_CONNECTIONS;
  if (!downloads) {
    const target = await subject.forUploads(plan.uploadsBefore);
    const much =
      own[0] === 'plain'
        ? { requests: plan.uploadsBefore }
        : { seconds: plan.warmUpSeconds * WORKERS_WARM_UP };
    await load.call('run', target, { files: [], connections, ...much });
    await subject.settled();
    return;
  }
  const count = downloads === 'popular' || downloads === 'random' ? plan.files : plan.hotFiles;
  const turns = downloads === 'once' ? plan.turns + 2 : 1;
  const store: Store = (target, files) => load.call('store', target, files);
  const stored = await subject.fill(contents(count * turns), store);
  setting.files.set(subject, stored);
  if (restarts) await subject.restart(restarts === 'cache' ? cacheBytesFor(count) : undefined);
  const run = (seconds: number | undefined, turn: number) => {
    const files = drawn(stored, downloads, turn, plan);
    return load.call('run', subject.target(), { files, connections, seconds });
  };
  if (downloads === 'once') {
    for (const turn of [plan.turns, plan.turns + 1]) await run(undefined, turn);
    return;
  }
  const rounds = downloads === 'hot' ? plan.warmUpRounds : 0;
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
    await context.runs(`${name}, ${connections} connections`, plan.turns, async (turn) => {
      for (const subject of inTurn(turn, subjects)) {
        await measureOne(context, setting, subject, connections, turn);
      }
      const id = (server: string, what: string) => figureId(name, server, connections, what);
      for (const subject of subjects.slice(1)) {
        for (const what of ['rate', 'cpu']) {
          const ratio = id(subject.name, `${what}-ratio`);
          context.figures.addRatio(ratio, id(subject.name, what), id(scenario.own[0], what));
        }
      }
    });
  }
}

async function measureOne(
  { figures }: BenchmarkContext,
  { name, scenario: { downloads }, plan, load, files: all }: Setting,
  subject: Subject,
  connections: number,
  turn: number,
): Promise<void> {
  const target = downloads ? subject.target() : await subject.forUploads(plan.requests);
  const files = downloads ? drawn(all.get(subject) ?? [], downloads, turn, plan) : [];
  const turnSeconds = downloads ? plan.seconds : plan.uploadSeconds;
  const asked = downloads === 'once' ? undefined : turnSeconds;
  const before = usageOf(subject);
  const result = await load.call('run', target, { files, connections, seconds: asked });
  await subject.settled();
  const after = usageOf(subject);
  const { requests, seconds, cpuSeconds, p50Ms, p99Ms } = result;
  const perRequest = (what: keyof Usage, factor: number, least = 0) => {
    const [from, to] = [before[what], after[what]];
    if (from === undefined || to === undefined) return undefined;
    return (Math.max(least, to - from) / requests) * factor;
  };
  figures.addAll(`${name}.${subject.name}.c${connections}`, {
    rate: [requests / seconds, 'requests/s'],
    cpu: [perRequest('cpu', 1e6, TICK_SECONDS), 'us'],
    main: [perRequest('main', 1e6), 'us'],
    v8: [perRequest('v8', 1e6), 'us'],
    pool: [perRequest('pool', 1e6), 'us'],
    read: [perRequest('read', 1e-3), 'kB'],
    p50: [p50Ms, 'ms'],
    p99: [p99Ms, 'ms'],
    'load-cpu': [cpuSeconds / seconds, 'cores'],
  });
}

/** Of the clock of CPU: a turn that is shorter took no more than this. */
const TICK_SECONDS = 0.01;

/** So far: seconds of CPU, and bytes that were read. */
type Usage = Readonly<
  Partial<Record<'cpu' | 'read' | (typeof THREADS)[number], number | undefined>>
>;

function usageOf(subject: Subject): Usage {
  const [pid, cpu] = [subject.pid(), subject.cpuSeconds()];
  return pid > 0 ? { cpu, read: ioOf(pid, 'rchar'), ...threadSecondsOf(pid) } : { cpu };
}

const columnsTo = (first: string): readonly Column[] => [
  ['requests/s', 'rate'],
  [`to ${first}`, 'rate-ratio'],
  ['us CPU', 'cpu', middle],
  [`to ${first}`, 'cpu-ratio', middle],
  ['p99 ms', 'p99', middle],
];

/** Where the CPU goes, and what the load takes of it. */
const INNER: readonly Column[] = [
  ['us CPU', 'cpu', middle],
  ['event loop', 'main', middle],
  ['V8', 'v8', middle],
  ['others', 'pool', middle],
  ['read, kB', 'read', middle],
  ['p50 ms', 'p50', middle],
  ['load, cores', 'load-cpu', middle],
];

function show(context: BenchmarkContext, name: ScenarioName, subjects: readonly Subject[]): void {
  const { title, connections, own }: Scenario = SCENARIOS[name];
  context.print(`## ${title}`);
  const head = 'Server, connections';
  const rows = connections.flatMap((count) =>
    subjects.map((subject): readonly [string, string] => [
      `${subject.name}, ${count}`,
      `${name}.${subject.name}.c${count}`,
    ]),
  );
  context.table(name, { head, columns: columnsTo(own[0]), rows });
  context.table(`${name}-inner`, { head, columns: INNER, rows });
  context.chart(name, {
    ...{ title, xTitle: 'connections', yTitle: 'requests per second' },
    labels: connections.map(String),
    series: subjects.map((subject) => ({
      name: subject.name,
      values: connections.map((count) => figureId(name, subject.name, count, 'rate')),
    })),
  });
}
