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
const CONTAINER_PARTS = 5;

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

/** In turns, a part each, so that what slows the disk slows both. */
async function measureContainer(
  { workspace, figures }: BenchmarkContext,
  plan: Plan,
): Promise<void> {
  const directory = workspace.fresh('container');
  await using container = await newChild(plan, 'mixed');
  await using plain = await newChild(plan, 'mixed');
  await container.call('openStaging', directory);
  const staged: Written[] = [];
  const appended: Written[] = [];
  let durable = 0;
  for (let part = 0; part < CONTAINER_PARTS; part += 1) {
    const options = { part, parts: CONTAINER_PARTS, concurrency: IN_FLIGHT };
    const { batches, durable: some, ...written } = await container.call('stage', options);
    staged.push(written);
    durable += some;
    const path = workspace.fresh('plain');
    appended.push(await plain.call('append', { path, batches }));
    await workspace.remove(path);
  }
  await container.call('closeStaging');
  await workspace.remove(directory);
  const [all, beside] = [sum(staged), sum(appended)];
  const speed = ({ bytes, seconds }: Written) => bytes / 1e6 / seconds;
  // What the plain loop counts as its files are the batches.
  figures.add('container.write', 'MB/s', speed(all));
  figures.add('container.write.cpu', 'cores', all.cpuSeconds / all.seconds);
  figures.add('container.plain', 'MB/s', speed(beside));
  figures.add('container.batch.files', 'files', all.files / beside.files);
  figures.add('container.batch.bytes', 'kB', beside.bytes / 1e3 / beside.files);
  figures.add('container.batch.durable', 'share', durable / beside.files);
  figures.add('container.write-vs-plain', 'times', speed(all) / speed(beside));
}

function sum(parts: readonly Written[]): Written {
  return parts.reduce((all, part) => ({
    files: all.files + part.files,
    bytes: all.bytes + part.bytes,
    seconds: all.seconds + part.seconds,
    cpuSeconds: all.cpuSeconds + part.cpuSeconds,
  }));
}

async function newChild(plan: Plan, bodies: Bodies): Promise<Child<WriteHandlers>> {
  const child = new Child<WriteHandlers>(new URL('./write-process.js', import.meta.url));
  const isMixed = bodies === 'mixed';
  await child.call('prepare', {
    seed: SEED,
    minBytes: isMixed ? MIN_FILE_BYTES : SMALL_BODY_BYTES,
    maxBytes: isMixed ? MAX_FILE_BYTES : SMALL_BODY_BYTES,
    totalBytes: isMixed ? plan.writeBytes : plan.smallWriteBytes,
  });
  return child;
}
