import type { BenchmarkContext } from '../harness/benchmark.js';
import { atLeast, type Goal } from '../harness/goals.js';
import { inTurn } from '../harness/load.js';
import { middle } from '../harness/markdown.js';
import {
  DESCRIBED_FILES,
  Groups,
  METADATA_LOOPS,
  TIERS,
  VARIANTS,
  type Variant,
} from './groups.js';
import type { Plan } from './plan.js';

/**
 * Figure 4: metadata and small-file throughput of one metadata server while no to 16
 * clients write and read small files, with the method and without it. Tracker, storage
 * and the two generators are processes of their own, and stay for all turns of a run: a
 * server is compared with itself a few seconds before. Metadata comes from loops that ask
 * the next thing when they have their answer, and, once more, at a rate that leaves room.
 */

const CLIENTS = [0, 1, 2, 4, 8, 16] as const;
/** In a run; what the goal compares follows each other, in both orders. */
const TURNS = [1, 16, 16, 1, 1, 16, 16, 1, 0, 2, 4, 8] as const;
/** Of the metadata generator where it keeps to a rate. */
const PACED_PER_SECOND = 300;
const MIN_METADATA_SHARE = 0.95;
const KINDS = ['metadata', 'small-files'] as const;

export const TRADE_OFF_GOALS: readonly Goal[] = [
  atLeast(
    'trade-off.method.metadata.c16-vs-c1',
    `metadata throughput at 16 small-file clients at least ${MIN_METADATA_SHARE} x that at 1`,
    MIN_METADATA_SHARE,
  ),
];

export async function measureTradeOff(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 0; run < plan.processRuns; run += 1) {
    for (const variant of inTurn(run, VARIANTS)) await measure(context, plan, variant, run + 1);
  }
  addShares(context);
  await show(context);
}

async function measure(
  context: BenchmarkContext,
  { warmUpSeconds, settleSeconds, turnSeconds: seconds }: Plan,
  variant: Variant,
  run: number,
): Promise<void> {
  const { figures, progress } = context;
  await using server = await Groups.start(context, { group1: TIERS[variant] });
  const { tracker } = server;
  const files = await server.metadata.call('files', { tracker, count: DESCRIBED_FILES });
  const load = async (clients: number, requestsPerSecond?: number) => {
    const common = { tracker, seconds, warmUpSeconds: settleSeconds };
    const metadata = { ...common, kind: 'metadata' as const, files, loops: METADATA_LOOPS };
    const small = { ...common, kind: 'small-files' as const, files: [], loops: clients };
    return Promise.all([
      server.metadata.call('run', { ...metadata, requestsPerSecond }),
      server.smallFiles.call('run', small),
    ]);
  };
  progress(`${variant}, warm-up, run ${run}`);
  for (let warm = 0; warm < warmUpSeconds; warm += seconds + settleSeconds) await load(16);
  for (const clients of TURNS) {
    progress(`${variant}, ${clients} clients, run ${run}`);
    const before = await server.cpuSeconds();
    const [metadata, small] = await load(clients);
    const after = await server.cpuSeconds();
    const id = `trade-off.${variant}`;
    figures.addAll(id, {
      [`metadata.c${clients}`]: [metadata.requests / seconds, 'requests/s'],
      [`metadata.c${clients}.p99`]: [metadata.p99Ms, 'ms'],
      [`small-files.c${clients}`]: [small.requests / seconds, 'requests/s'],
      'generators-cpu': [(metadata.cpuSeconds + small.cpuSeconds) / seconds, 'cores'],
      'storage-cpu': [(after.storages - before.storages) / (seconds + settleSeconds), 'cores'],
    });
  }
  progress(`${variant}, metadata at a rate, run ${run}`);
  const [metadata, small] = await load(16, PACED_PER_SECOND);
  figures.addAll(`trade-off.${variant}.paced`, {
    metadata: [metadata.requests / seconds, 'requests/s'],
    'small-files': [small.requests / seconds, 'requests/s'],
    p50: [metadata.p50Ms, 'ms'],
    p99: [metadata.p99Ms, 'ms'],
  });
}

/** Adjacent turns: what slows the machine for a while slows both. */
function addShares({ figures }: BenchmarkContext): void {
  for (const variant of VARIANTS) {
    const id = `trade-off.${variant}.metadata`;
    const one = figures.values(`${id}.c1`);
    for (const [turn, value] of figures.values(`${id}.c16`).entries()) {
      const beside = one[turn] ?? 0;
      // A turn that is too short for a busy machine answers nothing.
      if (beside > 0) figures.add(`${id}.c16-vs-c1`, 'times', value / beside);
    }
  }
}

async function show({ print, table, chart }: BenchmarkContext): Promise<void> {
  print('## Figure 4: one metadata server');
  table('trade-off', {
    head: 'Requests/s',
    rows: VARIANTS.flatMap((variant) =>
      KINDS.map((kind) => [`${variant}, ${kind}`, `trade-off.${variant}.${kind}`] as const),
    ),
    columns: [
      ...CLIENTS.map((clients) => [`${clients} clients`, `c${clients}`] as const),
      ['16 to 1', 'c16-vs-c1'],
      ['99 % within at 16, ms', 'c16.p99', middle],
      ['at 1', 'c1.p99', middle],
    ],
  });
  print(
    `In the paper metadata throughput falls by 66.7 % between 1 and 16 clients without the method, and stays level with it. Each small file here is read once, just after it was stored, so none of them moves: what small files give up goes to nobody else. Metadata at ${PACED_PER_SECOND} requests a second, 16 small-file clients; cores over all of the above:`,
  );
  table('trade-off-paced', {
    head: '',
    rows: VARIANTS.map((variant) => [variant, `trade-off.${variant}`]),
    columns: [
      ['metadata/s', 'paced.metadata'],
      ['50 % within, ms', 'paced.p50'],
      ['99 % within, ms', 'paced.p99'],
      ['small files/s', 'paced.small-files'],
      ['storage, cores', 'storage-cpu', middle],
      ['generators, cores', 'generators-cpu', middle],
    ],
  });
  for (const kind of KINDS) {
    await chart(`trade-off-${kind}`, {
      title: `Figure 4: throughput of ${kind}`,
      ...{ xTitle: 'Clients that write and read small files', yTitle: 'Requests per second' },
      labels: CLIENTS.map(String),
      series: VARIANTS.map((variant) => ({
        name: variant,
        values: CLIENTS.map((clients) => `trade-off.${variant}.${kind}.c${clients}`),
      })),
    });
  }
}
