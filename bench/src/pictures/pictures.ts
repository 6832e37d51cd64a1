import { type Benchmark, type BenchmarkContext, plans } from '../harness/benchmark.js';
import { GatewayCommand } from '../harness/gateway-command.js';
import { atLeast } from '../harness/goals.js';
import { inTurn } from '../harness/load.js';
import { middle, percent } from '../harness/markdown.js';
import { cpuSecondsOf, familyOf } from '../harness/process-cpu.js';
import { start } from '../harness/processes.js';
import { loadSharp, SIZES } from './sharp.js';

/** Pictures in other sizes: the gateway beside node:http with sharp, in one run and in turns. */

const FULL = {
  /** Measurements of each server, in turns. */
  turns: 9,
  /** Uploaded anew in every turn, so that each picture has a first request in each. */
  originals: 80,
  /** Of repeated requests. */
  seconds: 2,
};
const PLANS = plans(
  FULL,
  { turns: 3, originals: 16, seconds: 0.5 },
  { turns: 1, originals: 3, seconds: 0.05 },
);

/** The least that the gateway's rate is to be, as a multiple of the bare server's. */
const GOALS = { first: 0.6, repeated: 10 } as const;
type Kind = keyof typeof GOALS;
const KINDS = Object.keys(GOALS) as Kind[];
const TITLES: Readonly<Record<Kind, string>> = {
  first: 'First requests: each picture is made',
  repeated: 'Repeated requests of the same pictures, in random order',
};

export const pictures: Benchmark = {
  durability: 'the gateway: sync, originals and pictures; node:http: memory, pictures are not kept',
  introduce({ scale }) {
    const { turns, originals, seconds } = PLANS[scale];
    const sizes = SIZES.map(({ width, height }) => `${width} x ${height}`).join(' and ');
    return `${turns} turns: ${originals} JPEGs of 1600 x 1200 are uploaded, shown once in each of the sizes ${sizes}, then again for ${seconds} s, over 8 connections that are kept. Both servers make JPEGs with the same settings by sharp ${loadSharp().versions.sharp}. Each server and the load is a process of its own; the gateway has two more that make pictures, whose CPU counts as its own.`;
  },
  parts: (scale) => ({
    pictures: {
      goals: KINDS.map((kind) =>
        atLeast(
          `${kind}.vs-bare`,
          `${kind} requests through the gateway: at least {} x the rate of node:http with sharp, median of the turns`,
          GOALS[kind],
        ),
      ),
      run: (context) => measure(context, PLANS[scale]),
    },
  }),
};

async function measure(
  { workspace, progress, figures, print, table, runs }: BenchmarkContext,
  plan: typeof FULL,
): Promise<void> {
  await using load = start('pictures/load');
  await using bare = start('pictures/bare');
  await using gateway = await GatewayCommand.start({
    directory: workspace.fresh('gateway'),
    options: {
      ...{ trackerPort: 0, storagePort: 0 },
      pictureSizes: SIZES.map(({ width, height }) => `${width}x${height}`).join(','),
    },
  });
  const servers = [
    { name: 'bare', port: await bare.call('start'), pid: bare.pid },
    { name: 'gateway', port: gateway.port, pid: gateway.pid },
  ];
  /** New originals, each picture once, then again. */
  const turn = async ({ name, port, pid }: (typeof servers)[number], isMeasured: boolean) => {
    await load.call('upload', port);
    for (const kind of KINDS) {
      const before = cpuSecondsOf(familyOf(pid));
      const { operations, seconds, cpuSeconds } = await (kind === 'first'
        ? load.call('first', port)
        : load.call('repeated', port, plan.seconds));
      const after = cpuSecondsOf(familyOf(pid));
      const isKnown = before !== undefined && after !== undefined;
      if (!isMeasured) continue;
      figures.addAll(`${kind}.${name}`, {
        rate: [operations / seconds, 'pictures/s'],
        cpu: [isKnown ? ((after - before) / operations) * 1000 : undefined, 'ms'],
        'load-cpu': [cpuSeconds / seconds, 'share'],
      });
    }
  };
  progress(`making ${plan.originals} originals, and warming up`);
  await load.call('prepare', plan.originals);
  for (const server of servers) await turn(server, false);
  await runs('pictures in turns', plan.turns, async (run) => {
    for (const server of inTurn(run, servers)) await turn(server, true);
    for (const kind of KINDS) {
      figures.addRatio(`${kind}.vs-bare`, `${kind}.gateway.rate`, `${kind}.bare.rate`);
    }
  });
  for (const kind of KINDS) {
    print(`## ${TITLES[kind]}`);
    table(kind, {
      head: 'Server',
      rows: servers.map(({ name }) => [name, `${kind}.${name}`]),
      columns: [
        ['Pictures/s', 'rate'],
        ['CPU per picture, ms', 'cpu'],
        ['CPU of the load', 'load-cpu', percent],
      ],
    });
    print(`Gateway to bare, turn by turn: ${middle(figures.summary(`${kind}.vs-bare`))}.`);
  }
}
