import { FastdfsClient } from '@stevedore/fastdfs';
import { type Benchmark, type BenchmarkContext, plans } from '../harness/benchmark.js';
import { AS_THE_COMMAND } from '../harness/child.js';
import { Closing } from '../harness/closing.js';
import { atLeast } from '../harness/goals.js';
import { drive, inTurn, until } from '../harness/load.js';
import { start } from '../harness/processes.js';

/**
 * A group of two members: what a second copy costs an upload, and how fast a member that was
 * away catches up.
 */

const FULL = {
  ...{ runs: 5, files: 4_000 },
  /** Enough that most of the time is not the start of the member's process. */
  missedFiles: 20_000,
};
const PLANS = plans(
  FULL,
  { runs: 2, files: 600, missedFiles: 2_000 },
  { runs: 1, files: 40, missedFiles: 40 },
);

const FILE_BYTES = 20_000;
/** Uploads at a time; as many changes as a member is sent side by side. */
const CONCURRENCY = 16;
const TRACKER_HOST = '127.0.1.1';
const HOSTS = ['127.0.1.2', '127.0.1.3'] as const;
const LEVEL_LIMIT_MS = 120_000;

export const replication: Benchmark = {
  durability: 'on the medium at one member, or at two',
  introduce({ scale }) {
    const { runs, files, missedFiles } = PLANS[scale];
    return [
      `${runs} runs, variants in turns; two members and the load share this machine and its disk. ${files} files of ${FILE_BYTES} bytes, ${CONCURRENCY} at a time.`,
      `Catching up: ${missedFiles} files, from when the member that was away is active until it has everything. Plain: the same files written by a loop, as many at a time, each synced, renamed and its directory synced. Member and loop are processes of their own with ${AS_THE_COMMAND.env?.UV_THREADPOOL_SIZE} threads for the disk each, as \`stevedore\` has.`,
    ].join('\n');
  },
  parts: (scale) => ({
    writing: {
      goals: [atLeast('two-copies', 'uploads/s with two copies: at least {} x with one', 0.45)],
      run: (context) => measureWriting(context, PLANS[scale]),
    },
    'catching-up': {
      goals: [
        atLeast(
          'catching-up',
          'a member that was away catches up at {} x the speed of plain files at least',
          0.5,
        ),
      ],
      run: (context) => measureCatchingUp(context, PLANS[scale]),
    },
  }),
};

/** A tracker, two members, each a process of its own, and a client of them. */
async function startPair({ workspace }: BenchmarkContext, closing: Closing, writeCopies: number) {
  const tracker = await closing.use(start('harness/nodes')).call('tracker', TRACKER_HOST);
  const client = closing.use(new FastdfsClient({ trackers: [tracker] }));
  const directories = HOSTS.map(() => workspace.fresh('member'));
  let port = 0;
  const startMember = async (index: 0 | 1) => {
    const member = closing.use(start('harness/nodes', AS_THE_COMMAND));
    port = await member.call('storage', {
      ...{ host: HOSTS[index], port, trackers: [tracker], storePaths: [directories[index] ?? ''] },
      ...{ writeCopies, reconnectDelayMs: 50, beatIntervalMs: 200 },
    });
    return member;
  };
  const first = await startMember(0);
  const second = await startMember(1);
  /** Resolves when the second member has the whole log of the first. */
  const level = () => {
    const isLevel = async () => (await first.call('lagBytes')) === 0;
    return until('a member catches up', isLevel, LEVEL_LIMIT_MS);
  };
  await level();
  const body = Buffer.alloc(FILE_BYTES, 'r');
  /** Files a second. */
  const upload = async (operations: number): Promise<number> => {
    const load = { operations, concurrency: CONCURRENCY };
    const { seconds } = await drive(load, () => client.upload(body, { extension: 'bin' }));
    return operations / seconds;
  };
  return { first, second, startMember, level, upload };
}

async function measureWriting(context: BenchmarkContext, plan: typeof FULL): Promise<void> {
  const { figures, print, table, runs } = context;
  await runs('uploads with one copy and with two', plan.runs, async (run) => {
    for (const copies of inTurn(run, [1, 2])) {
      await using closing = new Closing();
      const pair = await startPair(context, closing, copies);
      // Both members take files; with one copy they are pushed meanwhile, as in use.
      figures.add(`uploads.n${copies}`, 'uploads/s', await pair.upload(plan.files));
    }
    figures.addRatio('two-copies', 'uploads.n2', 'uploads.n1');
  });
  print('## Uploads');
  table('uploads', {
    head: 'Copies',
    rows: [1, 2].map((copies) => [String(copies), `uploads.n${copies}`]),
    columns: [['uploads/s', '']],
  });
}

async function measureCatchingUp(context: BenchmarkContext, plan: typeof FULL): Promise<void> {
  const { figures, print, table, runs, workspace } = context;
  const files = plan.missedFiles;
  await runs('catching up', plan.runs, async () => {
    await using closing = new Closing();
    const { first, second, startMember, level, upload } = await startPair(context, closing, 1);
    await second[Symbol.asyncDispose]();
    await upload(files);
    const sent = await first.cpuSeconds();
    const receiver = await startMember(1);
    const received = await receiver.cpuSeconds();
    const begun = performance.now();
    await level();
    const seconds = (performance.now() - begun) / 1000;
    const perFile = (cpuSeconds: number): number => (cpuSeconds * 1e6) / files;
    await using plain = start('replication/plain', AS_THE_COMMAND);
    const load = { operations: files, concurrency: CONCURRENCY };
    figures.addAll('caught-up', {
      'sender-cpu': [perFile((await first.cpuSeconds()) - sent), 'µs'],
      'receiver-cpu': [perFile((await receiver.cpuSeconds()) - received), 'µs'],
      rate: [files / seconds, 'files/s'],
      plain: [await plain.call('write', workspace.fresh('plain'), load, FILE_BYTES), 'files/s'],
    });
    figures.addRatio('catching-up', 'caught-up.rate', 'caught-up.plain');
  });
  print('## Catching up');
  table('catching-up', {
    head: 'Files',
    rows: [[String(files), 'caught-up']],
    columns: [
      ['caught up, files/s', 'rate'],
      ['plain, files/s', 'plain'],
      ['CPU of a file at its sender, µs', 'sender-cpu'],
      ['at its receiver, µs', 'receiver-cpu'],
    ],
  });
}
