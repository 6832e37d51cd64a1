import type { BenchmarkContext } from '../harness/benchmark.js';
import { inTurn } from '../harness/load.js';
import { start } from '../harness/processes.js';
import type { Plan } from './plan.js';
import type { Written } from './write-process.js';

/**
 * Group commit: uploads with durability `sync` beside `os`; and the container beside
 * a loop that appends batches of the same sizes to a file and syncs each.
 */

const SEED = 21;
const BODIES = {
  mixed: { name: '2 to 100 KB', minBytes: 2_000, maxBytes: 100_000 },
  '4k': { name: '4 KiB', minBytes: 4_096, maxBytes: 4_096 },
} as const;
type Bodies = keyof typeof BODIES;
const BODY_KINDS = Object.keys(BODIES) as Bodies[];
const CONTAINER_PARTS = 5;

export async function measureWriting(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { print, table, runs } = context;
  await runs('uploads and the container', plan.runs, async (run) => {
    for (const bodies of BODY_KINDS) await measureUploads(context, plan, run, bodies);
    await measureContainer(context, plan);
  });
  print('## Group commit');
  table('group-commit', {
    head: 'Bodies',
    rows: BODY_KINDS.map((bodies) => [BODIES[bodies].name, `group-commit.${bodies}`]),
    columns: [
      ['`sync`, uploads/s', 'sync.uploads'],
      ['`os`, uploads/s', 'os.uploads'],
      ['Ratio', 'sync-vs-os'],
      ['`sync`, MB/s', 'sync.MBps'],
      ['`os`, MB/s', 'os.MBps'],
    ],
  });
  print('## Container');
  table('container', {
    head: '',
    rows: [['2 to 100 KB', 'container']],
    columns: [
      ['Container, MB/s', 'write'],
      ['Plain, MB/s', 'plain'],
      ['Ratio', 'write-vs-plain'],
      ['Files per batch', 'batch-files'],
      ['kB per batch', 'batch-bytes'],
      ['Durable in one call', 'batch-durable'],
    ],
  });
}

async function measureUploads(
  { workspace, figures }: BenchmarkContext,
  plan: Plan,
  run: number,
  bodies: Bodies,
): Promise<void> {
  const id = `group-commit.${bodies}`;
  for (const durability of inTurn(run, ['sync', 'os'] as const)) {
    const directory = workspace.fresh('uploads');
    await using child = await newChild(plan, bodies);
    const written = await child.call('upload', directory, durability);
    const { files, bytes, seconds, cpuSeconds } = written;
    figures.addAll(`${id}.${durability}`, {
      uploads: [files / seconds, 'uploads/s'],
      MBps: [bytes / 1e6 / seconds, 'MB/s'],
      cpu: [cpuSeconds / seconds, 'cores'],
    });
    await workspace.remove(directory);
  }
  figures.addRatio(`${id}.sync-vs-os`, `${id}.sync.uploads`, `${id}.os.uploads`);
}

/** In turns, a part each, so that what slows the disk slows both. */
async function measureContainer(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { workspace, figures } = context;
  const directory = workspace.fresh('container');
  await using container = await newChild(plan, 'mixed');
  await using plain = await newChild(plan, 'mixed');
  await container.call('openStaging', directory);
  const staged: Written[] = [];
  const appended: Written[] = [];
  let durable = 0;
  for (let part = 0; part < CONTAINER_PARTS; part += 1) {
    const { batches, ...written } = await container.call('stage', part, CONTAINER_PARTS);
    staged.push(written);
    durable += written.durable;
    const path = workspace.fresh('plain');
    appended.push(await plain.call('append', path, batches));
    await workspace.remove(path);
  }
  await container.call('closeStaging');
  await workspace.remove(directory);
  const [all, beside] = [sum(staged), sum(appended)];
  // What the plain loop counts as its files are the batches.
  figures.addAll('container', {
    write: [all.bytes / 1e6 / all.seconds, 'MB/s'],
    cpu: [all.cpuSeconds / all.seconds, 'cores'],
    plain: [beside.bytes / 1e6 / beside.seconds, 'MB/s'],
    'batch-files': [all.files / beside.files, 'files'],
    'batch-bytes': [beside.bytes / 1e3 / beside.files, 'kB'],
    'batch-durable': [durable / beside.files, 'share'],
  });
  figures.addRatio('container.write-vs-plain', 'container.write', 'container.plain');
}

function sum(parts: readonly Written[]): Written {
  return parts.reduce((all, part) => ({
    files: all.files + part.files,
    bytes: all.bytes + part.bytes,
    seconds: all.seconds + part.seconds,
    cpuSeconds: all.cpuSeconds + part.cpuSeconds,
  }));
}

async function newChild(plan: Plan, bodies: Bodies) {
  const child = start('staging/write');
  const { minBytes, maxBytes } = BODIES[bodies];
  const totalBytes = bodies === 'mixed' ? plan.writeBytes : plan.smallWriteBytes;
  await child.call('prepare', { seed: SEED, minBytes, maxBytes, totalBytes });
  return child;
}
