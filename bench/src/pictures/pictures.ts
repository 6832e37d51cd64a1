import type { Benchmark, BenchmarkContext, Scale } from '../harness/benchmark.js';
import { remarkOn } from '../harness/benchmark.js';
import { AS_THE_COMMAND, Child } from '../harness/child.js';
import { atLeast, type Goal, medianOf } from '../harness/goals.js';
import { round, spread, table } from '../harness/markdown.js';
import type { LoadHandlers, RunResult } from './load-process.js';
import {
  CONNECTIONS,
  GOALS,
  KINDS,
  type Kind,
  ORIGINAL,
  PLANS,
  type Plan,
  SERVERS,
  type ServerName,
  SIZES,
} from './plan.js';
import type { ServerHandlers } from './server.js';
import { loadSharp } from './sharp.js';

/** Pictures in other sizes: the gateway beside node:http with sharp, in one run and in turns. */

const TITLES: Readonly<Record<Kind, string>> = {
  first: 'First requests: each picture is made',
  repeated: 'Repeated requests of the same pictures, in random order',
};

const goals: readonly Goal[] = KINDS.map((kind) =>
  atLeast(
    `pictures.${kind}.vs-bare`,
    `${kind} requests through the gateway: at least ${GOALS[kind]} x the rate of node:http with sharp, median of the turns`,
    GOALS[kind],
    medianOf(`pictures.${kind}.vs-bare`),
  ),
);

export const pictures: Benchmark = {
  durability: 'the gateway: sync, originals and pictures; node:http: memory, pictures are not kept',
  introduce: ({ print, scale }) => {
    const { turns, originals, seconds } = PLANS[scale];
    const sizes = SIZES.map(({ width, height }) => `${width} x ${height}`).join(' and ');
    print(
      `${turns} turns${remarkOn(scale)}: ${originals} JPEGs of ${ORIGINAL.width} x ${ORIGINAL.height} are uploaded, shown once in each of the sizes ${sizes}, then again for ${seconds} s, over ${CONNECTIONS} connections that are kept. Both servers make JPEGs with the same settings by sharp ${loadSharp().versions.sharp}. Each server and the load is a process of its own; the gateway has two more that make pictures, whose CPU counts as its own.`,
    );
  },
  parts: (scale) => ({ pictures: { goals, run: (context) => measure(context, scale) } }),
};

interface Server {
  readonly name: ServerName;
  readonly child: Child<ServerHandlers>;
  readonly port: number;
}

async function measure(context: BenchmarkContext, scale: Scale): Promise<void> {
  const { workspace, progress } = context;
  const plan = PLANS[scale];
  await using load = child<LoadHandlers>('load');
  await using bare = child<ServerHandlers>('bare');
  await using gateway = child<ServerHandlers>('gateway');
  progress(`making ${plan.originals} originals`);
  await load.call('prepare', plan.originals);
  const servers: Server[] = [];
  for (const [name, each] of Object.entries({ bare, gateway })) {
    const port = await each.call('start', workspace.fresh(name));
    servers.push({ name: name as ServerName, child: each, port });
  }
  progress('warming up');
  for (const server of servers) await turn(server, load, plan);
  for (let count = 0; count < plan.turns; count += 1) {
    progress(`turn ${count + 1} of ${plan.turns}`);
    const rates = new Map<string, number>();
    for (const server of count % 2 === 0 ? servers : servers.toReversed()) {
      for (const [kind, measured] of Object.entries(await turn(server, load, plan))) {
        const { requests, seconds } = measured;
        rates.set(`${kind}.${server.name}`, requests / seconds);
        add(context, `pictures.${kind}.${server.name}`, measured);
      }
    }
    for (const kind of KINDS) {
      const ratio = rates.get(`${kind}.gateway`)! / rates.get(`${kind}.bare`)!;
      context.figures.add(`pictures.${kind}.vs-bare`, 'times', ratio);
    }
  }
  for (const kind of KINDS) show(context, kind);
}

function child<H extends ServerHandlers | LoadHandlers>(name: string): Child<H> {
  const module = new URL(`./${name}-process.js`, import.meta.url);
  return new Child<H>(name, module, name === 'gateway' ? AS_THE_COMMAND : {});
}

interface Measured extends RunResult {
  readonly serverCpuSeconds: number;
}

/** New originals, each picture once, then again. */
async function turn(
  { child: server, port }: Server,
  load: Child<LoadHandlers>,
  { seconds }: Plan,
): Promise<Record<Kind, Measured>> {
  await load.call('upload', port);
  const measured = async (run: () => Promise<RunResult>): Promise<Measured> => {
    const before = await server.call('familyCpuSeconds', undefined);
    const result = await run();
    const after = await server.call('familyCpuSeconds', undefined);
    return { ...result, serverCpuSeconds: after - before };
  };
  return {
    first: await measured(() => load.call('first', port)),
    repeated: await measured(() => load.call('repeated', { port, seconds })),
  };
}

function add({ figures }: BenchmarkContext, id: string, measured: Measured): void {
  const { requests, seconds, cpuSeconds, serverCpuSeconds } = measured;
  figures.add(`${id}.rate`, 'pictures/s', requests / seconds);
  figures.add(`${id}.cpu`, 'ms', (serverCpuSeconds / requests) * 1000);
  figures.add(`${id}.load-cpu`, 'share', cpuSeconds / seconds);
}

function show({ figures, print }: BenchmarkContext, kind: Kind): void {
  const rows = SERVERS.map((name) => {
    const of = (what: string) => figures.summary(`pictures.${kind}.${name}.${what}`);
    return [name, spread(of('rate')), spread(of('cpu')), `${round(of('load-cpu').median * 100)} %`];
  });
  const head = ['Server', 'Pictures/s', 'CPU per picture, ms', 'CPU of the load'];
  const ratio = spread(figures.summary(`pictures.${kind}.vs-bare`));
  print(`## ${TITLES[kind]}\n\n${table(head, rows)}\n\nGateway to bare, turn by turn: ${ratio}.`);
}
