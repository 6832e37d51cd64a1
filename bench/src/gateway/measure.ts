import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import type { LoadHandlers, LoadResult } from './load-process.js';
import {
  DOWNLOAD_CONNECTIONS,
  type Plan,
  UPLOAD_CONNECTIONS,
  VARIANTS,
  type Variant,
} from './plan.js';
import type { ServerHandlers, Started } from './server.js';

/** All variants run at the same time and are measured in turns; one that waits costs nothing. */

export const KINDS = ['upload', 'download'] as const;
export type Kind = (typeof KINDS)[number];

export function connectionsOf(kind: Kind): readonly number[] {
  return kind === 'upload' ? UPLOAD_CONNECTIONS : DOWNLOAD_CONNECTIONS;
}

export function figureId(kind: Kind, variant: Variant, connections: number, what: string): string {
  return `${kind}.${variant}.c${connections}.${what}`;
}

interface Server extends AsyncDisposable {
  readonly child: Child<ServerHandlers>;
  readonly started: Started;
}

export async function measure(
  context: BenchmarkContext,
  plan: Plan,
  kinds: readonly Kind[],
): Promise<void> {
  for (let run = 0; run < plan.runs; run += 1) {
    context.progress(`run ${run + 1} of ${plan.runs}`);
    const order = run % 2 === 0 ? VARIANTS : VARIANTS.toReversed();
    for (const kind of kinds) await measureKind(context, plan, kind, order);
  }
}

/** With processes of its own: what was uploaded is not written or merged during downloads. */
async function measureKind(
  context: BenchmarkContext,
  plan: Plan,
  kind: Kind,
  order: readonly Variant[],
): Promise<void> {
  await using load = new Child<LoadHandlers>('load', new URL('./load-process.js', import.meta.url));
  await using bare = await start(context, 'bare');
  await using gateway = await start(context, 'gateway');
  await using checked = await start(context, 'checked');
  const servers: Readonly<Record<Variant, Server>> = { bare, gateway, checked };
  for (const variant of order) await warmUp(load, servers[variant], kind, plan);
  for (const connections of connectionsOf(kind)) {
    for (let turn = 0; turn < plan.turns; turn += 1) {
      for (const variant of turn % 2 === 0 ? order : order.toReversed()) {
        const what = { kind, variant, connections, seconds: plan.seconds };
        await measureOne(context, load, servers[variant], what);
      }
      addRatios(context, kind, connections);
    }
  }
}

async function start({ workspace }: BenchmarkContext, variant: Variant): Promise<Server> {
  const file = variant === 'bare' ? './bare-process.js' : './gateway-process.js';
  const child = new Child<ServerHandlers>(variant, new URL(file, import.meta.url));
  const directory = workspace.fresh(variant);
  const dispose = async (): Promise<void> => {
    await child[Symbol.asyncDispose]();
    await workspace.remove(directory);
  };
  try {
    const started = await child.call('start', { directory, checked: variant === 'checked' });
    return { child, started, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function warmUp(
  load: Child<LoadHandlers>,
  { started }: Server,
  kind: Kind,
  { warmUpSeconds }: Plan,
): Promise<void> {
  await load.call('run', { server: started, kind, connections: 50, seconds: warmUpSeconds });
}

async function measureOne(
  { figures }: BenchmarkContext,
  load: Child<LoadHandlers>,
  { child, started }: Server,
  what: {
    readonly kind: Kind;
    readonly variant: Variant;
    readonly connections: number;
    readonly seconds: number;
  },
): Promise<void> {
  const { kind, variant, connections, seconds } = what;
  const cpuBefore = await child.cpuSeconds();
  const result: LoadResult = await load.call('run', {
    server: started,
    kind,
    connections,
    seconds,
  });
  const cpu = (await child.cpuSeconds()) - cpuBefore;
  const id = (name: string) => figureId(kind, variant, connections, name);
  figures.add(id('rate'), 'requests/s', result.requests / result.seconds);
  figures.add(id('cpu-per-request'), 'us', (cpu / result.requests) * 1e6);
  figures.add(id('cpu'), 'cores', cpu / result.seconds);
  figures.add(id('load-cpu'), 'cores', result.cpuSeconds / result.seconds);
  figures.add(id('p50'), 'ms', result.p50Ms);
  figures.add(id('p99'), 'ms', result.p99Ms);
}

/** Of the last turn to the bare app of the same turn. */
function addRatios({ figures }: BenchmarkContext, kind: Kind, connections: number): void {
  const rate = (variant: Variant) =>
    figures.values(figureId(kind, variant, connections, 'rate')).at(-1)!;
  for (const variant of ['gateway', 'checked'] as const) {
    const id = figureId(kind, variant, connections, 'vs-bare');
    figures.add(id, 'times', rate(variant) / rate('bare'));
  }
}
