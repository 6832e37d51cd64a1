import { copyFile, link, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { count } from '../harness/markdown.js';
import { type Running, start } from '../harness/processes.js';
import type { Sample } from './fill-process.js';
import type { Plan } from './plan.js';

/** How long a start takes with many files, and the memory it takes. */

export const STATES = ['staged', 'merged'] as const;
type State = (typeof STATES)[number];

const MIB = 2 ** 20;
const BODY_BYTES = 100;
const FILL_LIMIT_MS = 600_000;

export async function measureStarting(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { workspace, progress, print, table, runs } = context;
  const { startFiles: files, watchSeconds } = plan;
  const directories = { staged: workspace.fresh('staged'), merged: workspace.fresh('merged') };
  progress(`staging ${files} files, and merging them in a copy`);
  const samples = await filled((filler) =>
    filler.call('stage', directories.staged, files, BODY_BYTES),
  );
  await copyDirectory(directories.staged, directories.merged);
  await filled((filler) => filler.call('merge', directories.merged));
  await runs('starts', plan.runs, async () => {
    for (const state of STATES) await measure(context, plan, state, directories[state], samples);
  });
  print(
    `## Start with ${count(files)} files\n\nReady is counted from the start of the process. Most after: within ${watchSeconds} s of being ready, when merging has begun.`,
  );
  table('starts', {
    head: '',
    rows: STATES.map((state) => [state, `start.${state}`]),
    columns: [
      ['Ready, s', 'ready'],
      ['of that `open`, s', 'open'],
      ['Memory when ready, MiB', 'memory'],
      ['most after, MiB', 'memory-after'],
    ],
  });
}

async function filled<T>(work: (filler: Running<'staging/fill'>) => Promise<T>): Promise<T> {
  await using filler = start('staging/fill', { callLimitMs: FILL_LIMIT_MS });
  return await work(filler);
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
    await using child = start('staging/start');
    const started = await child.call('start', directory);
    const mostBytes = await child.call('watch', plan.watchSeconds);
    await child.call('verify', samples, BODY_BYTES);
    if (started.files !== plan.startFiles) throw new Error(`${started.files} files were found`);
    figures.addAll(`start.${state}`, {
      ready: [started.processMs / 1000, 's'],
      open: [started.openMs / 1000, 's'],
      memory: [started.readyRssBytes / MIB, 'MiB'],
      'memory-after': [mostBytes / MIB, 'MiB'],
    });
  } finally {
    await workspace.remove(directory);
  }
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
