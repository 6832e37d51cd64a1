import { crc32 } from 'node:zlib';
import { type BenchmarkContext, type Part, plans, type Scale } from '../harness/benchmark.js';
import { Closing } from '../harness/closing.js';
import { atMost } from '../harness/goals.js';
import { drive, inTurn } from '../harness/load.js';
import { count } from '../harness/markdown.js';
import { NodeConnection } from '../harness/node-connection.js';
import { start } from '../harness/processes.js';
import { SeededRandom } from '../harness/seeded-random.js';
import type { Filled } from './node-fill-process.js';
import { SEED } from './plan.js';

/**
 * What the number of files on a node costs: its start, and reads of the same number of
 * small files and slices from a small node and from a large one.
 */

const PLANS = plans(
  {
    small: { files: 10_000, trunks: 20 },
    large: { files: 1_000_000, trunks: 2_000 },
    runs: 5,
    /** Small files, and slices, that are read; the same number of each node. */
    asked: 6_000,
  },
  {
    small: { files: 2_000, trunks: 10 },
    large: { files: 20_000, trunks: 100 },
    ...{ runs: 2, asked: 1_000 },
  },
  { small: { files: 100, trunks: 1 }, large: { files: 1_000, trunks: 4 }, runs: 1, asked: 50 },
);
type NodeSizePlan = (typeof PLANS)[Scale];

const SIZES = ['small', 'large'] as const;
type Size = (typeof SIZES)[number];
const KINDS = ['files', 'slices'] as const;
const KIND_NAMES = { files: 'small files', slices: 'slices' } as const;
const CONNECTIONS = 16;
/** Reads of everything in one run, a node at a time; the ratio is that of one turn. */
const TURNS = 4;
const MIB = 2 ** 20;
const FILL_LIMIT_MS = 600_000;

export function nodeSize(scale: Scale): Part {
  const plan = PLANS[scale];
  const { large, small } = plan;
  return {
    goals: [
      atMost(
        'node-size.large.ready',
        `start with ${count(large.files)} files and ${count(large.trunks)} trunks: at most {} s`,
        2,
      ),
      ...KINDS.map((kind) =>
        atMost(
          `node-size.${kind}.ratio`,
          `reads of ${KIND_NAMES[kind]} with ${count(large.files)} files: at most {} x those with ${count(small.files)}`,
          1.2,
        ),
      ),
    ],
    run: (context) => measureNodeSize(context, plan),
  };
}

type TwoNodes = Readonly<Record<Size, { readonly directory: string; readonly filled: Filled }>>;

async function measureNodeSize(context: BenchmarkContext, plan: NodeSizePlan): Promise<void> {
  const { workspace, progress, print, table, runs } = context;
  const filledNode = async (size: Size) => {
    const { files, trunks } = plan[size];
    progress(`a node of ${files} files and ${trunks} trunks`);
    await using filler = start('data-node/node-fill', { callLimitMs: FILL_LIMIT_MS });
    const directory = workspace.fresh(`${size}-node`);
    return { directory, filled: await filler.call('fill', directory, plan[size], plan.asked) };
  };
  const nodes = { small: await filledNode('small'), large: await filledNode('large') };
  await runs('nodes of two sizes', plan.runs, () => measureRun(context, nodes));
  progress('removing the nodes');
  for (const size of SIZES) await workspace.remove(nodes[size].directory);
  print(
    `## The size of a node\n\n${count(plan.asked)} small files (4 kB) and as many slices (20 kB, of trunks of 64 MiB) of each node are read over ${CONNECTIONS} connections, without a cache: µs for each, median (least–greatest). *First*: the first time after a start, directories of trunks and descriptors included; then the same ones again, both nodes in turns. What is not read consists of holes; all is in the system's page cache as far as it fits.`,
  );
  table('node-size', {
    head: 'Node',
    rows: SIZES.map((size) => [
      `${count(plan[size].files)} files, ${count(plan[size].trunks)} trunks`,
      `node-size.${size}`,
    ]),
    columns: [
      ['Ready, s', 'ready'],
      ['Memory after, MiB', 'memory'],
      ['File, first', 'files.first'],
      ['File', 'files.read'],
      ['Slice, first', 'slices.first'],
      ['Slice', 'slices.read'],
    ],
  });
}

async function measureRun({ figures }: BenchmarkContext, nodes: TwoNodes): Promise<void> {
  await using closing = new Closing();
  const random = new SeededRandom(SEED);
  const children = {
    small: closing.use(start('harness/nodes')),
    large: closing.use(start('harness/nodes')),
  };
  const open = async (size: Size) => {
    const begun = performance.now();
    // Every read is to reach the disk's files.
    const options = { storePaths: [nodes[size].directory], cacheBytes: 0 };
    const port = await children[size].call('storage', options);
    figures.add(`node-size.${size}.ready`, 's', (performance.now() - begun) / 1000);
    const connect = async () => closing.use(await NodeConnection.open(port));
    return Promise.all(Array.from({ length: CONNECTIONS }, connect));
  };
  const connections = { small: await open('small'), large: await open('large') };
  /** Each of them once, in random order; microseconds for one. */
  const read = async (size: Size, kind: (typeof KINDS)[number]): Promise<number> => {
    const order = random.shuffled(nodes[size].filled[kind]);
    const free = connections[size];
    const load = { operations: order.length, concurrency: CONNECTIONS };
    const { seconds } = await drive(load, async (index) => {
      const connection = free.pop()!;
      const asked = order[index]!;
      const bytes = await connection.download(asked);
      if (bytes.length !== asked.size || crc32(bytes) !== asked.crc32) {
        throw new Error(`${asked.name} has other bytes`);
      }
      free.push(connection);
    });
    return (seconds * 1e6) / order.length;
  };
  for (const kind of KINDS) {
    for (const size of SIZES) {
      figures.add(`node-size.${size}.${kind}.first`, 'µs', await read(size, kind));
    }
    // One more, so that both have what they keep; then in turns.
    for (const size of SIZES) await read(size, kind);
    for (let turn = 0; turn < TURNS; turn += 1) {
      for (const size of inTurn(turn, SIZES)) {
        figures.add(`node-size.${size}.${kind}.read`, 'µs', await read(size, kind));
      }
      const id = (size: Size) => `node-size.${size}.${kind}.read`;
      figures.addRatio(`node-size.${kind}.ratio`, id('large'), id('small'));
    }
  }
  for (const size of SIZES) {
    const bytes = await children[size].rssBytes();
    figures.add(`node-size.${size}.memory`, 'MiB', bytes / MIB);
  }
}
