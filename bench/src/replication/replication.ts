import { mkdir, open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type Benchmark,
  type BenchmarkContext,
  remarkOn,
  type Scale,
} from '../harness/benchmark.js';
import { atLeast, medianOf } from '../harness/goals.js';
import { drive } from '../harness/load.js';
import { spread, table } from '../harness/markdown.js';
import { Pair } from './pair.js';

/**
 * A group of two members: what a second copy costs an upload, and how fast a member that was
 * away catches up.
 */

interface Plan {
  readonly runs: number;
  readonly files: number;
}

const PLANS: Readonly<Record<Scale, Plan>> = {
  full: { runs: 5, files: 4_000 },
  quick: { runs: 3, files: 1_000 },
  smoke: { runs: 1, files: 40 },
};

const FILE_BYTES = 20_000;
const CONCURRENCY = 16;
/** As many changes as a member is sent side by side. */
const PLAIN_CONCURRENCY = 8;
const MIN_TWO_COPIES = 0.45;
const MIN_CATCHING_UP = 0.5;

export const replication: Benchmark = {
  durability: 'on the medium at one member, or at two',
  introduce: ({ print, scale }) => {
    const { runs, files } = PLANS[scale];
    print(
      [
        `${runs} runs${remarkOn(scale)}, variants in turns; two members and the load share this machine and its disk. ${files} files of ${FILE_BYTES} bytes, ${CONCURRENCY} at a time.`,
        `Catching up: from when the member that was away is active until it has everything. Plain: the same files written by a loop, ${PLAIN_CONCURRENCY} at a time, each synced, renamed and its directory synced. A member has 16 threads for its disk, as \`stevedore\` gives it; the loop has what Node gives it, \`UV_THREADPOOL_SIZE\` or 4.`,
      ].join('\n'),
    );
  },
  parts: (scale) => ({
    writing: {
      goals: [
        atLeast(
          'replication.two-copies',
          `uploads/s with two copies: at least ${MIN_TWO_COPIES} x with one`,
          MIN_TWO_COPIES,
          medianOf('replication.two-copies'),
        ),
      ],
      run: (context) => measureWriting(context, PLANS[scale]),
    },
    'catching-up': {
      goals: [
        atLeast(
          'replication.catching-up',
          `a member that was away catches up at ${MIN_CATCHING_UP} x the speed of plain files at least`,
          MIN_CATCHING_UP,
          medianOf('replication.catching-up'),
        ),
      ],
      run: (context) => measureCatchingUp(context, PLANS[scale]),
    },
  }),
};

async function upload({ client }: Pair, files: number): Promise<number> {
  const body = Buffer.alloc(FILE_BYTES, 'r');
  const { seconds } = await drive({ operations: files, concurrency: CONCURRENCY }, async () => {
    await client.upload(body, { extension: 'bin' });
  });
  return files / seconds;
}

async function measureWriting(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, progress } = context;
  for (let run = 0; run < plan.runs; run += 1) {
    progress(`uploads with one copy and with two, run ${run + 1} of ${plan.runs}`);
    const perSecond = { 1: 0, 2: 0 };
    for (const copies of run % 2 === 0 ? ([1, 2] as const) : ([2, 1] as const)) {
      await using pair = await Pair.start(context, copies);
      // Both members take files; with one copy they are pushed meanwhile, as in use.
      perSecond[copies] = await upload(pair, plan.files);
      figures.add(`replication.uploads.n${copies}`, 'uploads/s', perSecond[copies]);
    }
    figures.add('replication.two-copies', 'times', perSecond[2] / perSecond[1]);
  }
  const of = (id: string) => spread(figures.summary(id));
  print(
    `## Uploads\n\n${table(
      ['', 'One copy, uploads/s', 'Two, uploads/s', 'Ratio'],
      [
        [
          '',
          of('replication.uploads.n1'),
          of('replication.uploads.n2'),
          of('replication.two-copies'),
        ],
      ],
    )}`,
  );
}

async function measureCatchingUp(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, progress } = context;
  for (let run = 0; run < plan.runs; run += 1) {
    progress(`catching up, run ${run + 1} of ${plan.runs}`);
    await using pair = await Pair.start(context, 1);
    await pair.stopMember(1);
    await upload(pair, plan.files);
    await pair.startMember(1);
    const begun = performance.now();
    await pair.level();
    const seconds = (performance.now() - begun) / 1000;
    const plain = await writePlain(context.workspace.fresh('plain'), plan.files);
    figures.add('replication.caught-up', 'files/s', plan.files / seconds);
    figures.add('replication.plain', 'files/s', plain);
    figures.add('replication.catching-up', 'times', plan.files / seconds / plain);
  }
  const of = (id: string) => spread(figures.summary(id));
  print(
    `## Catching up\n\n${table(
      ['', 'Caught up, files/s', 'Plain, files/s', 'Ratio'],
      [['', of('replication.caught-up'), of('replication.plain'), of('replication.catching-up')]],
    )}`,
  );
}

/** Files a second. */
async function writePlain(directory: string, files: number): Promise<number> {
  await mkdir(directory, { recursive: true });
  const folder = await open(directory, 'r');
  const body = Buffer.alloc(FILE_BYTES, 'r');
  try {
    const load = { operations: files, concurrency: PLAIN_CONCURRENCY };
    const { seconds } = await drive(load, async (index) => {
      const path = join(directory, String(index));
      const file = await open(`${path}.new`, 'wx');
      try {
        await file.write(body);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(`${path}.new`, path);
      await folder.sync();
    });
    return files / seconds;
  } finally {
    await folder.close();
  }
}
