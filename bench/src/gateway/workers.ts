import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import {
  type Benchmark,
  type BenchmarkContext,
  remarkOn,
  type Scale,
} from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { familyCpuSeconds } from '../harness/family-cpu.js';
import { atLeast, atMost, type Goal, medianOf } from '../harness/goals.js';
import { drive } from '../harness/load.js';
import { round, spread, table } from '../harness/markdown.js';
import { settled } from '../harness/waiting.js';
import type { LoadHandlers } from './load-process.js';
import { FILE_TYPE, fileText, type Stored } from './server.js';

/**
 * The gateway with two workers beside one process, started as a user starts it: on all cores, where
 * the load leaves room for more, and pinned to one core with the load on another, which shows what
 * a request costs wherever it is served.
 */

interface Plan {
  readonly runs: number;
  readonly turns: number;
  readonly seconds: number;
  /** So long that two processes, each with half of the requests, have compiled what they run. */
  readonly warmUpSeconds: number;
  readonly files: number;
}

const PLANS: Readonly<Record<Scale, Plan>> = {
  full: { runs: 3, turns: 4, seconds: 2, warmUpSeconds: 15, files: 1000 },
  quick: { runs: 1, turns: 4, seconds: 1, warmUpSeconds: 6, files: 200 },
  smoke: { runs: 1, turns: 1, seconds: 0.05, warmUpSeconds: 0.05, files: 64 },
};
const CONNECTIONS = 64;
const KINDS = ['upload', 'download'] as const;
const PLACES = ['all', 'pinned'] as const;
const WORKERS = [1, 2] as const;
const WARM_UP_ROUNDS = 12;
const RATE_RATIO = 1.5;
const CPU_RATIO = 1.15;
const COMMAND = fileURLToPath(new URL('../../../gateway/dist/main.js', import.meta.url));

const id = (kind: string, place: string, what: string): string => `${kind}.${place}.${what}`;

const goals: readonly Goal[] = KINDS.flatMap((kind) => [
  atLeast(
    id(kind, 'all', 'rate-ratio'),
    `${kind}s with two workers: at least ${RATE_RATIO} x those of one process, where the load leaves room`,
    RATE_RATIO,
    medianOf(id(kind, 'all', 'rate-ratio')),
  ),
  atMost(
    id(kind, 'pinned', 'cpu-ratio'),
    `CPU of one of the ${kind}s on one core: at most ${CPU_RATIO} x that of one process`,
    CPU_RATIO,
    medianOf(id(kind, 'pinned', 'cpu-ratio')),
  ),
]);

export const workers: Benchmark = {
  durability: 'sync: an upload is on the disk before it is acknowledged',
  packages: ['autocannon'],
  introduce: ({ print, scale }) => {
    const { runs, turns, seconds, files } = PLANS[scale];
    print(
      `${runs} runs${remarkOn(scale)} with new processes, ${turns} turns each, of ${seconds} s: files of 20 KB over ${CONNECTIONS} connections that are kept; ${files} files are downloaded again and again, each as often at workers that do not own it. The load is autocannon in a process of its own. CPU is that of all processes of the gateway. *pinned*: all of them on the first core, the load on the second.`,
    );
  },
  parts: (scale) => ({ workers: { goals, run: (context) => measure(context, PLANS[scale]) } }),
};

class Server implements AsyncDisposable {
  readonly #process: ChildProcess;
  port = 0;

  constructor(directory: string, count: number, isPinned: boolean) {
    const options = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];
    const merging = ['--trunk-size', '2GiB', '--merge-max-age', '1h'];
    const command = [process.execPath, COMMAND, 'gateway', '--directory', directory];
    const pin = isPinned ? ['taskset', '-c', '0'] : [];
    const [file, ...args] = [
      ...pin,
      ...command,
      ...options,
      ...merging,
      '--workers',
      String(count),
    ];
    this.#process = spawn(file!, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  }

  async start(): Promise<void> {
    for await (const line of createInterface({ input: this.#process.stdout! })) {
      if (line.startsWith('ready ')) this.port = Number(new URL(line.slice(6)).port);
      if (this.port > 0) return;
    }
    throw new Error('the gateway did not start');
  }

  async store(count: number): Promise<Stored[]> {
    const files: Stored[] = [];
    await drive({ operations: count, concurrency: CONNECTIONS }, async (number) => {
      const answer = await fetch(`http://127.0.0.1:${this.port}/files`, {
        ...{ method: 'POST', body: fileText(number), headers: { 'content-type': FILE_TYPE } },
      });
      const { key } = (await answer.json()) as { readonly key: string };
      files.push({ path: `/files/${key}`, number });
    });
    return files;
  }

  /** Of the primary and its workers. */
  cpuSeconds(): number {
    return familyCpuSeconds(this.#process.pid!);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode !== null) return;
    const exited = once(this.#process, 'exit');
    this.#process.kill();
    await exited;
  }
}

async function measure(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 0; run < plan.runs; run += 1) {
    for (const place of PLACES) {
      context.progress(`${place}, run ${run + 1} of ${plan.runs}`);
      await measureAt(context, plan, place);
    }
  }
  show(context);
}

async function measureAt(
  { workspace, figures }: BenchmarkContext,
  { turns, seconds, warmUpSeconds, files: count }: Plan,
  place: (typeof PLACES)[number],
): Promise<void> {
  const isPinned = place === 'pinned';
  const servers = WORKERS.map((each) => new Server(workspace.fresh('workers'), each, isPinned));
  try {
    await using load = new Child<LoadHandlers>(
      'load',
      new URL('./load-process.js', import.meta.url),
    );
    if (isPinned) await load.call('pin', 1);
    await settled(servers.map((server) => server.start()));
    const stored = await settled(servers.map((server) => server.store(count)));
    const run = (index: number, files: readonly Stored[], length: number | undefined) => {
      const server = { port: servers[index]!.port, headers: {} };
      return load.call('run', { server, files, connections: CONNECTIONS, seconds: length });
    };
    for (const kind of KINDS) {
      const filesOf = (index: number) => (kind === 'download' ? stored[index]! : []);
      for (const index of servers.keys()) {
        // Connections meet other workers each time: so both have all files in memory.
        for (let round = 0; kind === 'download' && round < WARM_UP_ROUNDS; round += 1) {
          await run(index, filesOf(index), undefined);
        }
        await run(index, filesOf(index), warmUpSeconds);
      }
      for (let turn = 0; turn < turns; turn += 1) {
        const rates: number[] = [];
        const costs: number[] = [];
        const order = turn % 2 === 0 ? [0, 1] : [1, 0];
        for (const index of order) {
          const before = servers[index]!.cpuSeconds();
          const { requests, seconds: took, cpuSeconds } = await run(index, filesOf(index), seconds);
          const cpu = servers[index]!.cpuSeconds() - before;
          const add = (what: string, unit: string, value: number) =>
            figures.add(id(kind, place, `${WORKERS[index]}.${what}`), unit, value);
          rates[index] = requests / took;
          costs[index] = (cpu / requests) * 1e6;
          add('rate', 'requests/s', rates[index]);
          add('cpu-per-request', 'us', costs[index]);
          add('cpu', 'cores', cpu / took);
          add('load-cpu', 'cores', cpuSeconds / took);
        }
        figures.add(id(kind, place, 'rate-ratio'), 'times', rates[1]! / rates[0]!);
        figures.add(id(kind, place, 'cpu-ratio'), 'times', costs[1]! / costs[0]!);
      }
    }
  } finally {
    await settled(servers.map((server) => server[Symbol.asyncDispose]()));
  }
}

function show({ figures, print }: BenchmarkContext): void {
  const rows = KINDS.flatMap((kind) =>
    PLACES.flatMap((place) =>
      WORKERS.map((count) => {
        const of = (what: string) => figures.summary(id(kind, place, `${count}.${what}`));
        const ratio = (what: string) => round(figures.summary(id(kind, place, what)).median);
        return [
          `${kind}, ${place}, ${count === 1 ? 'one process' : 'two workers'}`,
          spread(of('rate')),
          of('cpu-per-request').median,
          of('cpu').median,
          of('load-cpu').median,
          count === 1 ? '' : ratio('rate-ratio'),
          count === 1 ? '' : ratio('cpu-ratio'),
        ];
      }),
    ),
  );
  const head = ['', 'requests/s', 'us CPU', 'cores', 'load, cores', 'rate to one', 'CPU to one'];
  print(`## Workers\n\n${table(head, rows)}`);
}
