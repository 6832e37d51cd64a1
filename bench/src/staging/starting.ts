import { copyFile, link, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import type { FillHandlers, Sample } from './fill-process.js';
import type { Plan } from './plan.js';
import type { StartHandlers } from './start-process.js';

/** How long a start takes with many files, and the memory it takes. */

export const STATES = ['staged', 'merged'] as const;
export type State = (typeof STATES)[number];

const MIB = 2 ** 20;
const FILL_LIMIT_MS = 600_000;

export function startId(state: State, what: string): string {
  return `start.${state}.${what}`;
}

export async function measureStarting(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { workspace, progress } = context;
  const directories = { staged: workspace.fresh('staged'), merged: workspace.fresh('merged') };
  progress(`staging ${plan.startFiles} files`);
  const samples = await fill(directories.staged, plan.startFiles);
  progress(`merging them in a copy`);
  await copyDirectory(directories.staged, directories.merged);
  await merge(directories.merged);
  for (let run = 1; run <= plan.runs; run += 1) {
    progress(`starts, run ${run} of ${plan.runs}`);
    for (const state of STATES) {
      await measure(context, plan, state, directories[state], samples);
    }
  }
  for (const state of STATES) await workspace.remove(directories[state]);
}

async function measure(
  { workspace, figures }: BenchmarkContext,
  plan: Plan,
  state: State,
  from: string,
  samples: readonly Sample[],
): Promise<void> {
  const directory = workspace.fresh('start');
  await copyDirectory(from, directory);
  try {
    await using child = new Child<StartHandlers>(new URL('./start-process.js', import.meta.url));
    const start = await child.call('open', directory);
    const mostBytes = await child.call('watch', plan.watchSeconds);
    await child.call('verify', samples);
    if (start.files !== plan.startFiles) throw new Error(`${start.files} files were found`);
    figures.add(startId(state, 'ready'), 's', start.processMs / 1000);
    figures.add(startId(state, 'open'), 's', start.openMs / 1000);
    figures.add(startId(state, 'memory'), 'MiB', start.readyRssBytes / MIB);
    figures.add(startId(state, 'memory.after'), 'MiB', mostBytes / MIB);
  } finally {
    await workspace.remove(directory);
  }
}

async function fill(directory: string, files: number): Promise<readonly Sample[]> {
  await using child = newFiller();
  return await child.call('stage', { directory, files });
}

async function merge(directory: string): Promise<void> {
  await using child = newFiller();
  await child.call('merge', directory);
}

function newFiller(): Child<FillHandlers> {
  return new Child<FillHandlers>(new URL('./fill-process.js', import.meta.url), {
    callLimitMs: FILL_LIMIT_MS,
  });
}

/**
 * What a killed process left, once more. What a later process does to
 * segments is to write the same bytes again, or to remove them: a second name is as good as a copy.
 */
async function copyDirectory(from: string, to: string): Promise<void> {
  await mkdir(join(to, 'container'), { recursive: true });
  for (const name of await readdir(join(from, 'container'))) {
    await link(join(from, 'container', name), join(to, 'container', name));
  }
  for (const name of await readdir(from)) {
    if (/^(origin|filemap\.sqlite(-wal)?)$/.test(name)) {
      await copyFile(join(from, name), join(to, name));
    }
  }
}
