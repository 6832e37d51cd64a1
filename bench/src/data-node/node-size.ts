import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { crc32 } from 'node:zlib';
import { decodeHeader, downloadFile, encodeRequest, HEADER_BYTES } from '@stevedore/protocol';
import type { BenchmarkContext, Part, Scale } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { atMost, type Goal, medianOf } from '../harness/goals.js';
import { spread, table } from '../harness/markdown.js';
import { seededRandom } from '../harness/seeded-random.js';
import type { Asked, Filled, NodeFillHandlers } from './node-fill-process.js';
import type { NodeStartHandlers } from './node-start-process.js';
import { SEED } from './plan.js';

/**
 * What the number of files on a node costs: its start, and reads of the same number of
 * small files and slices from a small node and from a large one.
 */

interface NodeSizePlan {
  readonly runs: number;
  readonly small: { readonly files: number; readonly trunks: number };
  readonly large: { readonly files: number; readonly trunks: number };
  /** Small files, and slices, that are read; the same number of each node. */
  readonly asked: number;
}

const PLANS: Readonly<Record<Scale, NodeSizePlan>> = {
  full: {
    runs: 5,
    small: { files: 10_000, trunks: 20 },
    large: { files: 1_000_000, trunks: 2_000 },
    asked: 6_000,
  },
  quick: {
    runs: 3,
    small: { files: 5_000, trunks: 10 },
    large: { files: 50_000, trunks: 200 },
    asked: 2_000,
  },
  smoke: {
    runs: 1,
    small: { files: 100, trunks: 1 },
    large: { files: 1_000, trunks: 4 },
    asked: 50,
  },
};

const SIZES = ['small', 'large'] as const;
type Size = (typeof SIZES)[number];
const KINDS = ['files', 'slices'] as const;
type Kind = (typeof KINDS)[number];

const MAX_START_SECONDS = 2;
const MAX_READ_RATIO = 1.2;
const CONNECTIONS = 16;
/** Reads of everything in one run, a node at a time; the ratio is that of one turn. */
const TURNS = 4;
const MIB = 2 ** 20;
const FILL_LIMIT_MS = 600_000;

function nodeSizeId(...parts: readonly string[]): string {
  return ['node-size', ...parts].join('.');
}

export function nodeSize(scale: Scale): Part {
  const plan = PLANS[scale];
  return { goals: goalsOf(plan), run: (context) => measureNodeSize(context, plan) };
}

async function measureNodeSize(context: BenchmarkContext, plan: NodeSizePlan): Promise<void> {
  const { workspace, progress } = context;
  const directories = {
    small: workspace.fresh('small-node'),
    large: workspace.fresh('large-node'),
  };
  const asked = {} as Record<Size, Filled>;
  for (const size of SIZES) {
    progress(`a node of ${plan[size].files} files and ${plan[size].trunks} trunks`);
    await using filler = new Child<NodeFillHandlers>(
      new URL('./node-fill-process.js', import.meta.url),
      { callLimitMs: FILL_LIMIT_MS },
    );
    const options = { directory: directories[size], ...plan[size], asked: plan.asked };
    asked[size] = await filler.call('fill', options);
  }
  for (let run = 1; run <= plan.runs; run += 1) {
    progress(`nodes of two sizes, run ${run} of ${plan.runs}`);
    await measureRun(context, directories, asked);
  }
  progress('removing the nodes');
  for (const size of SIZES) await workspace.remove(directories[size]);
  show(context, plan);
}

async function measureRun(
  { figures }: BenchmarkContext,
  directories: Readonly<Record<Size, string>>,
  asked: Readonly<Record<Size, Filled>>,
): Promise<void> {
  const small = newNode();
  const large = newNode();
  await using _ = { [Symbol.asyncDispose]: () => both(small, large) };
  const nodes = { small, large };
  const loads = {} as Record<Size, Load>;
  for (const size of SIZES) {
    const start = await nodes[size].call('start', directories[size]);
    figures.add(nodeSizeId(size, 'ready'), 's', start.processMs / 1000);
    figures.add(nodeSizeId(size, 'start'), 's', start.startMs / 1000);
    loads[size] = await Load.open(start.port);
  }
  for (const kind of KINDS) {
    for (const size of SIZES) {
      const first = await loads[size].read(asked[size][kind]);
      figures.add(nodeSizeId(size, kind, 'first'), 'µs', first);
    }
    // One more, so that both have what they keep; then in turns.
    for (const size of SIZES) await loads[size].read(asked[size][kind]);
    for (let turn = 1; turn <= TURNS; turn += 1) {
      const micros = { small: 0, large: 0 };
      for (const size of turn % 2 === 0 ? SIZES : SIZES.toReversed()) {
        micros[size] = await loads[size].read(asked[size][kind]);
        figures.add(nodeSizeId(size, kind, 'read'), 'µs', micros[size]);
      }
      figures.add(nodeSizeId(kind, 'ratio'), 'x', micros.large / micros.small);
    }
  }
  for (const size of SIZES) {
    const rss = await nodes[size].call('rssBytes');
    figures.add(nodeSizeId(size, 'memory'), 'MiB', rss / MIB);
    loads[size].close();
  }
}

function newNode(): Child<NodeStartHandlers> {
  return new Child<NodeStartHandlers>(new URL('./node-start-process.js', import.meta.url));
}

async function both(one: AsyncDisposable, other: AsyncDisposable): Promise<void> {
  await one[Symbol.asyncDispose]();
  await other[Symbol.asyncDispose]();
}

/** So many connections, each with one request under way. */
class Load {
  readonly #sockets: readonly Socket[];
  readonly #random = seededRandom(SEED);

  private constructor(sockets: readonly Socket[]) {
    this.#sockets = sockets;
  }

  static async open(port: number): Promise<Load> {
    const sockets = Array.from({ length: CONNECTIONS }, () =>
      connect({ host: '127.0.0.1', port, noDelay: true }),
    );
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    return new Load(sockets);
  }

  /** Reads each of them once, in random order; answers with microseconds for one. */
  async read(asked: readonly Asked[]): Promise<number> {
    const order = shuffled(asked, this.#random);
    const begun = performance.now();
    let next = 0;
    await Promise.all(
      this.#sockets.map(async (socket) => {
        for (let index = next++; index < order.length; index = next++) {
          await readOne(socket, order[index]!);
        }
      }),
    );
    return ((performance.now() - begun) * 1000) / asked.length;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** Throws if other bytes come. */
function readOne(socket: Socket, { group, name, size, crc32: crc }: Asked): Promise<void> {
  return new Promise((resolve, reject) => {
    let header: Buffer | undefined;
    let bytes = 0;
    let sum = 0;
    const end = (error?: Error): void => {
      socket.off('data', take).off('error', end).off('close', closed);
      if (error) reject(error);
      else resolve();
    };
    const closed = (): void => end(new Error('the node closed a connection'));
    const take = (chunk: Buffer): void => {
      let rest = chunk;
      if (!header || header.length < HEADER_BYTES) {
        const all: Buffer = header ? Buffer.concat([header, chunk]) : chunk;
        header = all.subarray(0, HEADER_BYTES);
        rest = all.subarray(HEADER_BYTES);
        if (header.length < HEADER_BYTES) return;
        const { status, bodyBytes } = decodeHeader(header);
        if (status !== 0 || bodyBytes !== size) {
          end(new Error(`status ${status} and ${bodyBytes} bytes for ${name}`));
          return;
        }
      }
      bytes += rest.length;
      sum = crc32(rest, sum);
      if (bytes < size) return;
      end(sum === crc ? undefined : new Error(`${name} has other bytes`));
    };
    socket.on('data', take).on('error', end).on('close', closed);
    socket.write(encodeRequest(downloadFile, { group, name, offset: 0, length: 0 }));
  });
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const copy = [...items];
  for (let index = copy.length - 1; index > 0; index -= 1) {
    const other = Math.floor(random() * (index + 1));
    [copy[index], copy[other]] = [copy[other]!, copy[index]!];
  }
  return copy;
}

function show({ figures, print }: BenchmarkContext, plan: NodeSizePlan): void {
  const rows = SIZES.map((size) => [
    `${count(plan[size].files)} files, ${count(plan[size].trunks)} trunks`,
    ...['ready', 'memory', 'files.first', 'files.read', 'slices.first', 'slices.read'].map((what) =>
      spread(figures.summary(nodeSizeId(size, what))),
    ),
  ]);
  const headings = ['Node', 'Ready, s', 'Memory after, MiB', 'File, first', 'File', 'Slice, first'];
  print(
    [
      '## The size of a node',
      `${count(plan.asked)} small files (4 kB) and as many slices (20 kB, of trunks of 64 MiB) of each node are read over ${CONNECTIONS} connections, without a cache: µs for each, median (least–greatest). *First*: the first time after a start, directories of trunks and descriptors included; then the same ones again, both nodes in turns; ratios are those of one turn, then their median. What is not read consists of holes; all is in the system's page cache as far as it fits.`,
      table([...headings, 'Slice'], rows),
    ].join('\n\n'),
  );
}

function goalsOf({ large, small }: NodeSizePlan): readonly Goal[] {
  return [
    atMost(
      nodeSizeId('large', 'ready'),
      `start with ${count(large.files)} files and ${count(large.trunks)} trunks < ${MAX_START_SECONDS} s`,
      MAX_START_SECONDS,
      medianOf(nodeSizeId('large', 'ready')),
    ),
    ...KINDS.map((kind) =>
      atMost(
        nodeSizeId(kind, 'ratio'),
        `read ratio <= ${MAX_READ_RATIO}: ${name(kind)} with ${count(large.files)} files and with ${count(small.files)}`,
        MAX_READ_RATIO,
        medianOf(nodeSizeId(kind, 'ratio')),
      ),
    ),
  ];
}

function name(kind: Kind): string {
  return kind === 'files' ? 'small files' : 'slices';
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}
