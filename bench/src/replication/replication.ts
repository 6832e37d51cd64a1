import { FastdfsClient } from '@stevedore/fastdfs';
import {
  type Benchmark,
  type BenchmarkContext,
  remarkOn,
  type Scale,
} from '../harness/benchmark.js';
import { AS_THE_COMMAND, Child } from '../harness/child.js';
import { atLeast } from '../harness/goals.js';
import { drive, inTurn, until } from '../harness/load.js';
import { Nodes } from '../harness/nodes.js';
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
/** Uploads at a time; as many changes as a member is sent side by side. */
const CONCURRENCY = 16;
const MIN_TWO_COPIES = 0.45;
const MIN_CATCHING_UP = 0.5;
const TRACKER_HOST = '127.0.1.1';
const HOSTS = ['127.0.1.2', '127.0.1.3'] as const;
const LEVEL_LIMIT_MS = 120_000;

export const replication: Benchmark = {
  durability: 'on the medium at one member, or at two',
  introduce({ scale }) {
    const { runs, files, missedFiles } = PLANS[scale];
    return [
      `${runs} runs${remarkOn(scale)}, variants in turns; two members and the load share this machine and its disk. ${files} files of ${FILE_BYTES} bytes, ${CONCURRENCY} at a time.`,
      `Catching up: ${missedFiles} files, from when the member that was away is active until it has everything. Plain: the same files written by a loop, as many at a time, each synced, renamed and its directory synced. Member and loop are processes of their own with ${AS_THE_COMMAND.env?.UV_THREADPOOL_SIZE} threads for the disk each, as \`stevedore\` has.`,
    ].join('\n');
  },
  parts: (scale) => ({
    writing: {
      goals: [
        atLeast(
          'two-copies',
          `uploads/s with two copies: at least ${MIN_TWO_COPIES} x with one`,
          MIN_TWO_COPIES,
        ),
      ],
      run: (context) => measureWriting(context, PLANS[scale]),
    },
    'catching-up': {
      goals: [
        atLeast(
          'catching-up',
          `a member that was away catches up at ${MIN_CATCHING_UP} x the speed of plain files at least`,
          MIN_CATCHING_UP,
        ),
      ],
      run: (context) => measureCatchingUp(context, PLANS[scale]),
    },
  }),
};

/** A tracker, two members, each a process of its own, and a client of them. */
class Pair implements AsyncDisposable {
  readonly #tracker = new Nodes();
  readonly #members: (Nodes | undefined)[] = [];
  readonly #directories: readonly string[];
  readonly #writeCopies: number;
  #address = '';
  #port = 0;
  client: FastdfsClient | undefined;

  private constructor({ workspace }: BenchmarkContext, writeCopies: number) {
    this.#directories = HOSTS.map(() => workspace.fresh('member'));
    this.#writeCopies = writeCopies;
  }

  static async start(context: BenchmarkContext, writeCopies: number): Promise<Pair> {
    const pair = new Pair(context, writeCopies);
    try {
      pair.#address = await pair.#tracker.call('tracker', TRACKER_HOST);
      pair.client = new FastdfsClient({ trackers: [pair.#address] });
      for (const index of HOSTS.keys()) await pair.startMember(index);
      await pair.level();
      return pair;
    } catch (error) {
      await pair[Symbol.asyncDispose]();
      throw error;
    }
  }

  async startMember(index: number): Promise<Nodes> {
    const member = new Nodes(AS_THE_COMMAND);
    this.#members[index] = member;
    this.#port = await member.call('storage', {
      ...{ host: HOSTS[index] ?? '', port: this.#port, trackers: [this.#address] },
      ...{ storePaths: [this.#directories[index] ?? ''], writeCopies: this.#writeCopies },
      ...{ reconnectDelayMs: 50, beatIntervalMs: 200 },
    });
    return member;
  }

  async stopMember(index: number): Promise<void> {
    await this.#members[index]?.[Symbol.asyncDispose]();
    this.#members[index] = undefined;
  }

  get first(): Nodes {
    const [member] = this.#members;
    if (!member) throw new Error('the first member does not run');
    return member;
  }

  /** Resolves when the second member has the whole log of the first. */
  level(): Promise<void> {
    const isLevel = async () => (await this.first.call('lagBytes')) === 0;
    return until('a member catches up', isLevel, LEVEL_LIMIT_MS);
  }

  /** Files a second. */
  async upload(files: number): Promise<number> {
    const body = Buffer.alloc(FILE_BYTES, 'r');
    const load = { operations: files, concurrency: CONCURRENCY };
    const { seconds } = await drive(load, async () =>
      this.client?.upload(body, { extension: 'bin' }),
    );
    return files / seconds;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client?.close();
    for (const index of HOSTS.keys()) await this.stopMember(index);
    await this.#tracker[Symbol.asyncDispose]();
  }
}

async function measureWriting(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, table, progress } = context;
  for (let run = 0; run < plan.runs; run += 1) {
    progress(`uploads with one copy and with two, run ${run + 1} of ${plan.runs}`);
    for (const copies of inTurn(run, [1, 2])) {
      await using pair = await Pair.start(context, copies);
      // Both members take files; with one copy they are pushed meanwhile, as in use.
      figures.add(`uploads.n${copies}`, 'uploads/s', await pair.upload(plan.files));
    }
    figures.addRatio('two-copies', 'uploads.n2', 'uploads.n1');
  }
  print('## Uploads');
  table('uploads', {
    head: 'Copies',
    rows: [1, 2].map((copies) => [String(copies), `uploads.n${copies}`]),
    columns: [['uploads/s', '']],
  });
}

async function measureCatchingUp(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, table, progress, workspace } = context;
  const { runs, missedFiles: files } = plan;
  for (let run = 0; run < runs; run += 1) {
    progress(`catching up, run ${run + 1} of ${runs}`);
    await using pair = await Pair.start(context, 1);
    await pair.stopMember(1);
    await pair.upload(files);
    const sent = await pair.first.cpuSeconds();
    const receiver = await pair.startMember(1);
    const received = await receiver.cpuSeconds();
    const begun = performance.now();
    await pair.level();
    const seconds = (performance.now() - begun) / 1000;
    const perFile = (cpuSeconds: number): number => (cpuSeconds * 1e6) / files;
    const url = new URL('./plain-process.js', import.meta.url);
    await using plain = new Child<PlainHandlers>(url, AS_THE_COMMAND);
    const directory = workspace.fresh('plain');
    const about = { directory, files, fileBytes: FILE_BYTES, concurrency: CONCURRENCY };
    figures.addAll('caught-up', {
      'sender-cpu': [perFile((await pair.first.cpuSeconds()) - sent), 'µs'],
      'receiver-cpu': [perFile((await receiver.cpuSeconds()) - received), 'µs'],
      rate: [files / seconds, 'files/s'],
      plain: [await plain.call('write', about), 'files/s'],
    });
    figures.addRatio('catching-up', 'caught-up.rate', 'caught-up.plain');
  }
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
