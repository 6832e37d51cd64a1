import {
  type Benchmark,
  type BenchmarkContext,
  remarkOn,
  type Scale,
} from '../harness/benchmark.js';
import { AS_THE_COMMAND, Child } from '../harness/child.js';
import { atLeast, medianOf } from '../harness/goals.js';
import { drive } from '../harness/load.js';
import { spread, table } from '../harness/markdown.js';
import { Pair } from './pair.js';
import type { PlainHandlers } from './plain-process.js';

/**
 * A group of two members: what a second copy costs an upload, and how fast a member that was
 * away catches up.
 */

interface Plan {
  readonly runs: number;
  readonly files: number;
  /** Enough that most of the time is not the start of the member's process. */
  readonly missedFiles: number;
}

const PLANS: Readonly<Record<Scale, Plan>> = {
  full: { runs: 5, files: 4_000, missedFiles: 20_000 },
  quick: { runs: 3, files: 1_000, missedFiles: 4_000 },
  smoke: { runs: 1, files: 40, missedFiles: 40 },
};

const FILE_BYTES = 20_000;
const CONCURRENCY = 16;
/** As many changes as a member is sent side by side. */
const PLAIN_CONCURRENCY = 16;
const MIN_TWO_COPIES = 0.45;
const MIN_CATCHING_UP = 0.5;

export const replication: Benchmark = {
  durability: 'on the medium at one member, or at two',
  introduce: ({ print, scale }) => {
    const { runs, files, missedFiles } = PLANS[scale];
    print(
      [
        `${runs} runs${remarkOn(scale)}, variants in turns; two members and the load share this machine and its disk. ${files} files of ${FILE_BYTES} bytes, ${CONCURRENCY} at a time.`,
        `Catching up: ${missedFiles} files, from when the member that was away is active until it has everything. Plain: the same files written by a loop, ${PLAIN_CONCURRENCY} at a time, each synced, renamed and its directory synced. Member and loop are processes of their own with ${AS_THE_COMMAND.env?.UV_THREADPOOL_SIZE} threads for the disk each, as \`stevedore\` has.`,
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
    await upload(pair, plan.missedFiles);
    const sender = await pair.cpuSeconds(0);
    await pair.startMember(1);
    const receiver = await pair.cpuSeconds(1);
    const begun = performance.now();
    await pair.level();
    const seconds = (performance.now() - begun) / 1000;
    const perFile = (cpuSeconds: number): number => (cpuSeconds * 1e6) / plan.missedFiles;
    figures.add('replication.sender-cpu', 'µs', perFile((await pair.cpuSeconds(0)) - sender));
    figures.add('replication.receiver-cpu', 'µs', perFile((await pair.cpuSeconds(1)) - receiver));
    const plain = await writePlain(context, plan.missedFiles);
    figures.add('replication.caught-up', 'files/s', plan.missedFiles / seconds);
    figures.add('replication.plain', 'files/s', plain);
    figures.add('replication.catching-up', 'times', plan.missedFiles / seconds / plain);
  }
  const of = (id: string) => spread(figures.summary(id));
  print(
    `## Catching up\n\n${table(
      [
        'Caught up, files/s',
        'Plain, files/s',
        'Ratio',
        'CPU of a file at its sender, µs',
        'At its receiver, µs',
      ],
      [
        [
          of('replication.caught-up'),
          of('replication.plain'),
          of('replication.catching-up'),
          of('replication.sender-cpu'),
          of('replication.receiver-cpu'),
        ],
      ],
    )}`,
  );
}

/** Files a second. */
async function writePlain({ workspace }: BenchmarkContext, files: number): Promise<number> {
  const url = new URL('./plain-process.js', import.meta.url);
  await using plain = new Child<PlainHandlers>('plain', url, AS_THE_COMMAND);
  const directory = workspace.fresh('plain');
  return await plain.call('write', {
    ...{ directory, files },
    ...{ fileBytes: FILE_BYTES, concurrency: PLAIN_CONCURRENCY },
  });
}
