import type { Benchmark, BenchmarkContext } from '../harness/benchmark.js';
import type { Figures } from '../harness/figures.js';
import { round, spread, table } from '../harness/markdown.js';
import { connectionsOf, figureId, KINDS, type Kind, measure } from './measure.js';
import { FULL, GOAL_RATIO, type Plan, QUICK, VARIANTS } from './plan.js';

/** The gateway's HTTP beside a bare Fastify app that does the same work and checks nothing. */
export const gateway: Benchmark = {
  durability: 'sync: an upload is on the disk before it is acknowledged, in every variant',
  parts: KINDS,
  async run(context) {
    const plan = context.quick ? QUICK : FULL;
    const kinds = KINDS.filter((kind) => context.runs(kind));
    introduce(context, plan);
    await measure(context, plan, kinds);
    for (const kind of kinds) {
      show(context, kind);
      addGoals(context.figures, kind);
    }
  },
};

function introduce({ print, quick }: BenchmarkContext, plan: Plan): void {
  print(
    [
      `${plan.runs} runs${quick ? ' (quick: rough figures)' : ''} with new processes for each kind; in a run every variant is measured ${plan.turns} times for ${plan.seconds} s, in turns. Files of 20 KB over connections that are kept; each sends its next request when the last one is answered. The load is a process of its own, its share of the processors is stated; every file that comes back is compared.`,
      '*bare* is Fastify with bodies appended and synced in batches, a SQLite row for each, and files in memory to download. *gateway* is `stevedore gateway` with its defaults. *checked* has an API key with rate and quota, a policy with types, and first bytes held against them, for uploads; a signed URL for downloads. Nothing is merged meanwhile.',
    ].join('\n'),
  );
}

function show({ figures, print }: BenchmarkContext, kind: Kind): void {
  const rows = connectionsOf(kind).flatMap((connections) =>
    VARIANTS.map((variant) => {
      const of = (what: string) => figures.summary(figureId(kind, variant, connections, what));
      return [
        `${variant}, ${connections}`,
        spread(of('rate')),
        variant === 'bare' ? '' : round(of('vs-bare').median),
        of('cpu-per-request').median,
        of('cpu').median,
        of('load-cpu').median,
        of('p50').median,
        of('p99').median,
      ];
    }),
  );
  const head = [
    'Server, connections',
    `${kind}s/s`,
    'to bare',
    'us user+sys',
    'cores',
    'load, cores',
    'p50 ms',
    'p99 ms',
  ];
  print(`## ${kind === 'upload' ? 'Durable uploads' : 'Cached downloads'}\n\n${table(head, rows)}`);
}

function addGoals(figures: Figures, kind: Kind): void {
  for (const connections of connectionsOf(kind)) {
    const id = figureId(kind, 'checked', connections, 'vs-bare');
    const { median } = figures.summary(id);
    figures.addGoal({
      id,
      goal: `${kind}s at ${connections} connections, every check on: at least ${GOAL_RATIO} x the bare app`,
      value: median,
      met: median >= GOAL_RATIO,
    });
  }
}
