import { crc32 } from 'node:zlib';
import { type FileName, makeSliceId, parseFileName, type SliceEntry } from '@stevedore/protocol';
import { NodeConnection } from '../harness/node-connection.js';
import { cpuUsed } from '../harness/process-cpu.js';
import { seededRandom } from '../harness/seeded-random.js';
import { serve } from '../harness/serve.js';
import { FILE_EXTENSION, makeFiles, makeTrunks } from './data-set.js';
import { MEMBER_CHANCE, READS_PER_WRITE, ZIPF_EXPONENT } from './plan.js';
import type { Layout } from './settings.js';

/**
 * The load generator. A thread of it is a connection that asks for one file after the
 * other: it chooses a group by its popularity and asks for its members in turn, most of
 * them, as a browser does for a page's images. Every answer is held against its CRC-32.
 */

export interface FillOptions {
  readonly port: number;
  /** Which of the nodes' data. */
  readonly node: number;
  readonly dataBytes: number;
  readonly layout: Layout;
}

export interface LoadOptions {
  readonly targets: readonly { readonly port: number; readonly data: string }[];
  readonly threads: number;
  readonly seconds: number;
  /** No more requests than these. */
  readonly maxRequests: number;
  readonly seed: number;
  /** One write for so many reads; 0: reads alone. */
  readonly mixed: boolean;
}

export interface LoadResult {
  readonly requests: number;
  readonly bytes: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

export type LoadHandlers = {
  /** Stores the data of a node; answers with the name under which it is known here. */
  readonly fill: (options: FillOptions) => Promise<string>;
  readonly run: (options: LoadOptions) => Promise<LoadResult>;
};

const GROUP_NAME = 'group1';
const WRITE_BYTES = 20_000;

interface Data {
  readonly groups: readonly (readonly { name: FileName; entry: SliceEntry }[])[];
  /** Cumulated popularity of the groups, in their order. */
  readonly popularity: Float64Array;
}

const known = new Map<string, Data>();

async function fill({ port, node, dataBytes, layout }: FillOptions): Promise<string> {
  const files = makeFiles(node, dataBytes);
  const groups: { name: FileName; entry: SliceEntry }[][] = [];
  const connection = await NodeConnection.open(port);
  for (const { pieces, bytes, files: placed } of makeTrunks(files, layout)) {
    const trunk = await connection.upload(pieces, bytes, 'merged');
    const trunkId = parseFileName(trunk.group, trunk.name)!;
    for (const { file, entry } of placed) {
      const id = makeSliceId(trunkId, entry, FILE_EXTENSION);
      const name = { group: GROUP_NAME, name: id.slice(GROUP_NAME.length + 1) };
      groups[file.group] ??= [];
      groups[file.group]!.push({ name, entry });
    }
  }
  connection.close();
  const data = `${node}-${layout}`;
  known.set(data, { groups, popularity: popularityOf(groups.length) });
  return data;
}

/** Which group is how popular has nothing to do with where it lies. */
function popularityOf(count: number): Float64Array {
  const random = seededRandom(count);
  const ranks = Array.from({ length: count }, (_, index) => index + 1);
  for (let at = count - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1));
    [ranks[at], ranks[other]] = [ranks[other]!, ranks[at]!];
  }
  let sum = 0;
  return Float64Array.from(ranks, (rank) => {
    sum += rank ** -ZIPF_EXPONENT;
    return sum;
  });
}

function chooseGroup({ popularity }: Data, random: () => number): number {
  const wanted = random() * popularity.at(-1)!;
  let low = 0;
  let high = popularity.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (popularity[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

async function run(options: LoadOptions): Promise<LoadResult> {
  const { targets, threads, seconds, maxRequests, seed, mixed } = options;
  const connections = await Promise.all(
    Array.from({ length: threads }, () =>
      Promise.all(targets.map(({ port }) => NodeConnection.open(port))),
    ),
  );
  const written = Buffer.alloc(WRITE_BYTES, 'written');
  let requests = 0;
  let bytes = 0;
  const before = cpuUsed();
  const begun = performance.now();
  const endMs = begun + seconds * 1000;
  const isOver = (): boolean => requests >= maxRequests || performance.now() >= endMs;

  const thread = async (own: readonly NodeConnection[], index: number): Promise<void> => {
    const random = seededRandom(seed * 1000 + index);
    let untilWrite = Math.floor(random() * READS_PER_WRITE);
    while (!isOver()) {
      const at = Math.floor(random() * targets.length);
      const data = known.get(targets[at]!.data)!;
      for (const { name, entry } of data.groups[chooseGroup(data, random)]!) {
        if (isOver()) return;
        if (random() >= MEMBER_CHANCE) continue;
        const file = await own[at]!.download(name);
        if (file.length !== entry.size || crc32(file) !== entry.crc32) {
          throw new Error(`${name.name} came back with other bytes`);
        }
        requests += 1;
        bytes += file.length;
        if (!mixed) continue;
        untilWrite -= 1;
        if (untilWrite > 0) continue;
        untilWrite = READS_PER_WRITE;
        await own[at]!.upload([written], WRITE_BYTES, FILE_EXTENSION);
        requests += 1;
        bytes += WRITE_BYTES;
      }
    }
  };
  try {
    await Promise.all(connections.map(thread));
  } finally {
    for (const connection of connections.flat()) connection.close();
  }
  const elapsed = (performance.now() - begun) / 1000;
  return { requests, bytes, seconds: elapsed, cpuSeconds: cpuUsed() - before };
}

serve({ fill, run } satisfies LoadHandlers, () => Promise.resolve());
