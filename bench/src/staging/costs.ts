import { createReadStream } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import type { CostHandlers, Operation } from './cost-process.js';
import { type Plan, SMALL_ROWS } from './plan.js';

/**
 * What put, get and delete cost in a small and in a large FileMap. Both processes are
 * there at the same time and work in turns, a slice each, so that what slows the
 * machine slows both.
 */

export const OPERATIONS = ['put', 'get', 'delete', 'find'] as const;
const SIZES = ['small', 'large'] as const;
type Size = (typeof SIZES)[number];

const SLICES = 5;
const SLICE_OPERATIONS: Readonly<Record<Operation, number>> = {
  put: 1_000,
  get: 2_000,
  delete: 200,
  find: 4_000,
};
const MIB = 2 ** 20;
const LIMIT_OF_MAKING_MS = 900_000;

export function costId(operation: Operation, what: string): string {
  return `cost.${operation}.${what}`;
}

export async function measureCosts(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { workspace, progress } = context;
  const small = workspace.fresh('filemap-small');
  const large = workspace.fresh('filemap-large');
  progress(`a FileMap of ${SMALL_ROWS} files and one of ${plan.largeRows}`);
  await make(small, SMALL_ROWS);
  await make(large, plan.largeRows);
  for (let run = 0; run < plan.costRuns; run += 1) {
    progress(`put, get and delete, run ${run + 1} of ${plan.costRuns}`);
    // The large one stays the same size for all that a run deletes; the small one is fresh.
    const copy = workspace.fresh('filemap-small');
    await cp(small, copy, { recursive: true });
    await measure(context, plan, run, { small: copy, large });
    await workspace.remove(copy);
  }
  await workspace.remove(small);
  await workspace.remove(large);
}

async function make(directory: string, rows: number): Promise<void> {
  await using child = newChild('generator', LIMIT_OF_MAKING_MS);
  await child.call('make', { directory, rows });
}

async function measure(
  { figures }: BenchmarkContext,
  plan: Plan,
  run: number,
  directories: Readonly<Record<Size, string>>,
): Promise<void> {
  await using small = newChild('small');
  await using large = newChild('large');
  const children = { small, large };
  const rows = { small: SMALL_ROWS, large: plan.largeRows };
  for (const size of SIZES) {
    await readThrough(join(directories[size], 'filemap.sqlite'));
    await children[size].call('open', { directory: directories[size], rows: rows[size] });
    await children[size].call('warmUp');
  }
  for (const operation of OPERATIONS) {
    const count = SLICE_OPERATIONS[operation];
    const seconds = { small: 0, large: 0 };
    const cpuSeconds = { small: 0, large: 0 };
    for (let slice = 0; slice < SLICES; slice += 1) {
      const order = slice % 2 === 0 ? SIZES : SIZES.toReversed();
      for (const size of order) {
        const skipped = size === 'large' ? run * SLICES * count : 0;
        const from = skipped + slice * count;
        const cost = await children[size].call('run', { operation, from, count });
        seconds[size] += cost.seconds;
        cpuSeconds[size] += cost.cpuSeconds;
      }
    }
    const all = SLICES * count;
    for (const size of SIZES) {
      figures.add(costId(operation, size), 'µs', (seconds[size] / all) * 1e6);
      figures.add(costId(operation, `${size}.cpu`), 'µs of CPU', (cpuSeconds[size] / all) * 1e6);
    }
    figures.add(costId(operation, 'ratio'), 'times', seconds.large / seconds.small);
    figures.add(costId(operation, 'ratio.cpu'), 'times', cpuSeconds.large / cpuSeconds.small);
  }
  for (const size of SIZES) {
    const rssBytes = await children[size].call('rssBytes');
    figures.add(`cost.memory.${size}`, 'MiB', rssBytes / MIB);
    await children[size].call('close');
  }
}

/** Puts the file into the page cache, from which the machine may have taken it meanwhile. */
async function readThrough(path: string): Promise<void> {
  for await (const _ of createReadStream(path, { highWaterMark: MIB }));
}

function newChild(name: string, callLimitMs?: number): Child<CostHandlers> {
  return new Child<CostHandlers>(
    new URL('./cost-process.js', import.meta.url),
    callLimitMs === undefined ? {} : { callLimitMs },
  );
}
