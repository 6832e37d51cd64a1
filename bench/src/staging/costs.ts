import { createReadStream } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { inTurn } from '../harness/load.js';
import { count } from '../harness/markdown.js';
import { start } from '../harness/processes.js';
import type { Operation } from './cost-process.js';
import { type Plan, SMALL_ROWS } from './plan.js';

/**
 * What put, get and delete cost in a small and in a large FileMap. Both processes are
 * there at the same time and work in turns, a slice each, so that what slows the
 * machine slows both.
 */

const SIZES = ['small', 'large'] as const;
type Size = (typeof SIZES)[number];

const SLICES = 5;
const SLICE_OPERATIONS = { put: 1_000, get: 2_000, delete: 200, find: 4_000 } as const;
const OPERATIONS = Object.keys(SLICE_OPERATIONS) as Operation[];
const MIB = 2 ** 20;
const LIMIT_OF_MAKING_MS = 900_000;

export async function measureCosts(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { workspace, progress, print, table, runs } = context;
  const { largeRows } = plan;
  const small = workspace.fresh('filemap-small');
  const large = workspace.fresh('filemap-large');
  progress(`a FileMap of ${SMALL_ROWS} files and one of ${largeRows}`);
  {
    await using maker = start('staging/cost', { callLimitMs: LIMIT_OF_MAKING_MS });
    await maker.call('make', small, SMALL_ROWS);
    await maker.call('make', large, largeRows);
  }
  await runs('put, get and delete', plan.costRuns, async (run) => {
    // The large one stays the same size for all that a run deletes; the small one is fresh.
    const copy = workspace.fresh('filemap-small');
    await cp(small, copy, { recursive: true });
    await measure(context, plan, run, { small: copy, large });
    await workspace.remove(copy);
  });
  print('## Cost by number of files');
  table('costs', {
    head: '',
    rows: OPERATIONS.map((operation) => [operation, `cost.${operation}`]),
    columns: [
      [`${count(SMALL_ROWS)} files, µs`, 'small'],
      [`${count(largeRows)} files, µs`, 'large'],
      ['Ratio', 'ratio'],
      ['Ratio of CPU time', 'ratio-cpu'],
    ],
  });
  table('costs-memory', {
    head: '',
    rows: [['Memory behind that, MiB', 'cost.memory']],
    columns: SIZES.map((size) => [size, size]),
  });
}

async function measure(
  { figures }: BenchmarkContext,
  plan: Plan,
  run: number,
  directories: Readonly<Record<Size, string>>,
): Promise<void> {
  await using small = start('staging/cost');
  await using large = start('staging/cost');
  const children = { small, large };
  const rows = { small: SMALL_ROWS, large: plan.largeRows };
  for (const size of SIZES) {
    await readThrough(join(directories[size], 'filemap.sqlite'));
    await children[size].call('open', directories[size], rows[size]);
  }
  for (const operation of OPERATIONS) {
    const slice = SLICE_OPERATIONS[operation];
    const sums = { small: { wall: 0, cpu: 0 }, large: { wall: 0, cpu: 0 } };
    for (let turn = 0; turn < SLICES; turn += 1) {
      for (const size of inTurn(turn, SIZES)) {
        const from = ((size === 'large' ? run * SLICES : 0) + turn) * slice;
        const cost = await children[size].call('run', operation, from, slice);
        sums[size].wall += cost.seconds;
        sums[size].cpu += cost.cpuSeconds;
      }
    }
    const micros = (seconds: number) => (seconds / (SLICES * slice)) * 1e6;
    figures.addAll(`cost.${operation}`, {
      small: [micros(sums.small.wall), 'µs'],
      large: [micros(sums.large.wall), 'µs'],
      'small-cpu': [micros(sums.small.cpu), 'µs of CPU'],
      'large-cpu': [micros(sums.large.cpu), 'µs of CPU'],
      ratio: [sums.large.wall / sums.small.wall, 'times'],
      'ratio-cpu': [sums.large.cpu / sums.small.cpu, 'times'],
    });
  }
  for (const size of SIZES) {
    figures.add(`cost.memory.${size}`, 'MiB', (await children[size].rssBytes()) / MIB);
    await children[size].call('close');
  }
}

/** Puts the file into the page cache, from which the machine may have taken it meanwhile. */
async function readThrough(path: string): Promise<void> {
  for await (const _ of createReadStream(path, { highWaterMark: MIB }));
}
