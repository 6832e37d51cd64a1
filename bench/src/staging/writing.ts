import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import {
  IN_FLIGHT,
  MAX_FILE_BYTES,
  MIN_FILE_BYTES,
  type Plan,
  SEED,
  SMALL_BODY_BYTES,
} from './plan.js';
import type { WriteHandlers, Written } from './write-process.js';

/**
 * Group commit: uploads with durability `sync` beside `os`; and the container beside
 * a loop that appends batches of the same sizes to a file and syncs each.
 */

export const BODIES = ['mixed', '4k'] as const;
export type Bodies = (typeof BODIES)[number];
const DURABILITIES = ['sync', 'os'] as const;

export function uploadId(bodies: Bodies, what: string): string {
  return bodies === 'mixed' ? `group-commit.${what}` : `group-commit.${bodies}.${what}`;
}

export async function measureWriting(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 0; run < plan.runs; run += 1) {
    context.progress(`uploads and the container, run ${run + 1} of ${plan.runs}`);
    for (const bodies of BODIES) await measureUploads(context, plan, run, bodies);
    await measureContainer(context, plan);
  }
}

async function measureUploads(
  { workspace, figures }: BenchmarkContext,
  plan: Plan,
  run: number,
  bodies: Bodies,
): Promise<void> {
  const perSecond = { sync: 0, os: 0 };
  for (const durability of run % 2 === 0 ? DURABILITIES : DURABILITIES.toReversed()) {
    const directory = workspace.fresh('uploads');
    await using child = await newChild(plan, bodies);
    const options = { directory, durability, concurrency: IN_FLIGHT };
    const written = await child.call('upload', options);
    const { files, bytes, seconds, cpuSeconds } = written;
    perSecond[durability] = files / seconds;
    figures.add(uploadId(bodies, `${durability}.uploads`), 'uploads/s', files / seconds);
    figures.add(uploadId(bodies, `${durability}.MBps`), 'MB/s', bytes / 1e6 / seconds);
    figures.add(uploadId(bodies, `${durability}.cpu`), 'cores', cpuSeconds / seconds);
    await workspace.remove(directory);
  }
  figures.add(uploadId(bodies, 'sync-vs-os'), 'times', perSecond.sync / perSecond.os);
}

async function measureContainer(
  { workspace, figures }: BenchmarkContext,
  plan: Plan,
): Promise<void> {
  const directory = workspace.fresh('container');
  const path = workspace.fresh('plain');
  await using container = await newChild(plan, 'mixed');
  const staged = await container.call('stage', { directory, concurrency: IN_FLIGHT });
  await workspace.remove(directory);
  await using plain = await newChild(plan, 'mixed');
  const appended = await plain.call('append', { path, batches: staged.batches });
  await workspace.remove(path);
  const speed = ({ bytes, seconds }: Written) => bytes / 1e6 / seconds;
  figures.add('container.write', 'MB/s', speed(staged));
  figures.add('container.write.cpu', 'cores', staged.cpuSeconds / staged.seconds);
  figures.add('container.plain', 'MB/s', speed(appended));
  figures.add('container.batch.files', 'files', staged.files / staged.batches.length);
  figures.add('container.batch.bytes', 'kB', appended.bytes / 1e3 / staged.batches.length);
  figures.add('container.write-vs-plain', 'times', speed(staged) / speed(appended));
}

async function newChild(plan: Plan, bodies: Bodies): Promise<Child<WriteHandlers>> {
  const child = new Child<WriteHandlers>('writer', new URL('./write-process.js', import.meta.url));
  const isMixed = bodies === 'mixed';
  await child.call('prepare', {
    seed: SEED,
    minBytes: isMixed ? MIN_FILE_BYTES : SMALL_BODY_BYTES,
    maxBytes: isMixed ? MAX_FILE_BYTES : SMALL_BODY_BYTES,
    totalBytes: isMixed ? plan.writeBytes : plan.smallWriteBytes,
  });
  return child;
}
