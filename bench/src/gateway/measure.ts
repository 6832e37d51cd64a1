import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { settled } from '../harness/waiting.js';
import type { LoadHandlers } from './load-process.js';
import {
  CACHE_SHARE,
  CONNECTIONS,
  FILE_BYTES,
  type Kind,
  type Plan,
  VARIANTS,
  type Variant,
  ZIPF_EXPONENT,
} from './plan.js';
import type { Stored } from './server.js';
import { ServerUnderTest } from './server-under-test.js';

/** All variants run at the same time and are measured in turns; one that waits costs nothing. */

const WARM_UP_CONNECTIONS = 50;
/** Rounds in which every file is read once, before anything is measured. */
const WARM_UP_ROUNDS = 3;

export function figureId(kind: Kind, variant: Variant, connections: number, what: string): string {
  return `${kind}.${variant}.c${connections}.${what}`;
}

/** Bytes that a server reads for each request, in kB; not on every system. */
export const READ = 'read';

/** A server, and the files of its next measurement; none: it takes uploads. */
interface Subject {
  readonly server: ServerUnderTest;
  files(): Promise<readonly Stored[]>;
}

type Load = Child<LoadHandlers>;

/** Kinds one after the other with the same processes; every run has new ones. */
export async function measure(
  context: BenchmarkContext,
  plan: Plan,
  kinds: readonly Kind[],
): Promise<void> {
  for (let run = 0; run < plan.runs; run += 1) {
    const order = run % 2 === 0 ? VARIANTS : VARIANTS.toReversed();
    const servers = order.map((variant) => new ServerUnderTest(variant, context.workspace));
    try {
      await using load: Load = new Child('load', new URL('./load-process.js', import.meta.url));
      await settled(servers.map((server) => server.start()));
      for (const kind of kinds) {
        context.progress(`${kind}, run ${run + 1} of ${plan.runs}`);
        await measureKind(context, plan, kind, load, servers);
      }
    } finally {
      await settled(servers.map((server) => server[Symbol.asyncDispose]()));
    }
  }
}

async function measureKind(
  context: BenchmarkContext,
  plan: Plan,
  kind: Kind,
  load: Load,
  servers: readonly ServerUnderTest[],
): Promise<void> {
  const subjects = await settled(
    servers.map(async (server) => ({ server, files: await supply(plan, kind, server) })),
  );
  for (const subject of subjects) await warmUp(plan, kind, load, subject);
  for (const connections of CONNECTIONS[kind]) {
    for (let turn = 0; turn < plan.turns; turn += 1) {
      for (const subject of turn % 2 === 0 ? subjects : subjects.toReversed()) {
        await measureOne(context, plan, kind, load, subject, connections);
      }
      addRatios(context, kind, connections);
    }
  }
}

async function supply(
  { files: count, popularFiles, turns }: Plan,
  kind: Kind,
  server: ServerUnderTest,
): Promise<Subject['files']> {
  switch (kind) {
    case 'upload':
      return async () => [];
    case 'download': {
      const files = await server.store(count);
      return async () => files;
    }
    case 'download-fresh':
      return () => server.store(count);
    case 'download-popular': {
      const files = await server.store(popularFiles);
      return async () => zipf(files, popularFiles);
    }
    case 'download-beyond': {
      const files = await server.store(popularFiles);
      await server.restart(Math.floor(popularFiles * FILE_BYTES * CACHE_SHARE));
      return async () => shuffled(files);
    }
    case 'download-cold': {
      const rounds = WARM_UP_ROUNDS + CONNECTIONS[kind].length * turns;
      const files = await server.store(rounds * count);
      await server.restart();
      return async () => files.splice(0, count);
    }
  }
}

const random = new SeededRandom(18);

/** So many requests: by Zipf's law, or each file as often as any other. */
export function drawn(files: readonly Stored[], count: number, byZipf: boolean): Stored[] {
  if (byZipf) return zipf(files, count);
  return Array.from({ length: count }, () => files[random.below(files.length)]!);
}

/** So many requests: a few files again and again, most of the others once or never. */
function zipf(files: readonly Stored[], count: number): Stored[] {
  const sums: number[] = [];
  let sum = 0;
  for (let rank = 1; rank <= files.length; rank += 1) {
    sum += rank ** -ZIPF_EXPONENT;
    sums.push(sum);
  }
  return Array.from({ length: count }, () => {
    const drawn = random.next() * sum;
    let [low, high] = [0, files.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle]! < drawn) low = middle + 1;
      else high = middle;
    }
    return files[low]!;
  });
}

function shuffled(files: readonly Stored[]): Stored[] {
  const order = [...files];
  for (let at = order.length - 1; at > 0; at -= 1) {
    const other = random.below(at + 1);
    [order[at], order[other]] = [order[other]!, order[at]!];
  }
  return order;
}

function isReadOnce(kind: Kind): boolean {
  return kind === 'download-fresh' || kind === 'download-cold';
}

/** Files that are downloaded again and again have all been downloaded several times then. */
async function warmUp(
  { warmUpSeconds }: Plan,
  kind: Kind,
  load: Load,
  { server, files }: Subject,
): Promise<void> {
  const run = async (seconds: number | undefined) => {
    const connections = WARM_UP_CONNECTIONS;
    await load.call('run', { server: server.started, files: await files(), connections, seconds });
  };
  for (let round = 0; kind !== 'upload' && round < WARM_UP_ROUNDS; round += 1) await run(undefined);
  if (!isReadOnce(kind)) await run(warmUpSeconds);
}

async function measureOne(
  { figures }: BenchmarkContext,
  plan: Plan,
  kind: Kind,
  load: Load,
  { server, files }: Subject,
  connections: number,
): Promise<void> {
  const options = {
    server: server.started,
    files: await files(),
    connections,
    seconds: isReadOnce(kind) ? undefined : plan.seconds,
  };
  const cpuBefore = await server.cpuSeconds();
  const readBefore = await server.readBytes();
  const { requests, seconds, cpuSeconds, p50Ms, p99Ms } = await load.call('run', options);
  const read = await server.readBytes();
  const cpu = (await server.cpuSeconds()) - cpuBefore;
  const add = (name: string, unit: string, value: number) =>
    figures.add(figureId(kind, server.variant, connections, name), unit, value);
  add('rate', 'requests/s', requests / seconds);
  add('cpu-per-request', 'us', (cpu / requests) * 1e6);
  add('cpu', 'cores', cpu / seconds);
  add('load-cpu', 'cores', cpuSeconds / seconds);
  add('p50', 'ms', p50Ms);
  add('p99', 'ms', p99Ms);
  if (read !== undefined && readBefore !== undefined) {
    add(READ, 'kB', (read - readBefore) / 1000 / requests);
  }
}

/** Of the last turn to the bare app, and to node:http, of the same turn. */
function addRatios({ figures }: BenchmarkContext, kind: Kind, connections: number): void {
  const last = (variant: Variant, what: string) =>
    figures.values(figureId(kind, variant, connections, what)).at(-1)!;
  for (const variant of ['gateway', 'checked'] as const) {
    const add = (what: string, value: number) =>
      figures.add(figureId(kind, variant, connections, what), 'times', value);
    add('vs-plain', last(variant, 'rate') / last('plain', 'rate'));
    add('cpu-vs-plain', last(variant, 'cpu-per-request') / last('plain', 'cpu-per-request'));
    add('vs-bare', last(variant, 'rate') / last('bare', 'rate'));
    // As many requests as this the server answers in the time of one core, to the bare app's.
    add('per-cpu-vs-bare', last('bare', 'cpu-per-request') / last(variant, 'cpu-per-request'));
  }
}
