import { crc32 } from 'node:zlib';
import { type FileName, makeSliceId, parseFileName, type SliceEntry } from '@stevedore/protocol';
import { type Driven, startClock } from '../harness/load.js';
import { NodeConnection } from '../harness/node-connection.js';
import { SeededRandom, seededRandom } from '../harness/seeded-random.js';
import { serve } from '../harness/serve.js';
import { Zipf } from '../harness/zipf.js';
import { FILE_EXTENSION, makeFiles, makeTrunks } from './data-set.js';
import type { Layout } from './plan.js';

/**
 * The load generator. A thread of it is a connection that asks for one file after the
 * other: it chooses a group by its popularity and asks for its members in turn, most of
 * them, as a browser does for a page's images. Every answer is held against its CRC-32.
 */

export interface LoadOptions {
  readonly targets: readonly { readonly port: number; readonly data: string }[];
  readonly threads: number;
  readonly seconds: number;
  /** No more requests than these. */
  readonly maxRequests: number;
  readonly seed: number;
  /** One write for so many reads; false: reads alone. */
  readonly mixed: boolean;
}

interface Member {
  readonly name: FileName;
  readonly entry: SliceEntry;
}

/** Of the popularity of groups: the k-th most popular one is asked for k^-s as often. */
const ZIPF_EXPONENT = 0.8;
/** Chance of each member of a group to be asked for when the group is. */
const MEMBER_CHANCE = 0.9;
const READS_PER_WRITE = 20;
const GROUP_NAME = 'group1';
const WRITE_BYTES = 20_000;

/** Groups in the order of their popularity, which has nothing to do with where they lie. */
const known = new Map<string, readonly (readonly Member[])[]>();

const handlers = {
  /** Stores the data of a node; answers with the name under which it is known here. */
  async fill({
    port,
    node,
    dataBytes,
    layout,
  }: {
    readonly port: number;
    readonly node: number;
    readonly dataBytes: number;
    readonly layout: Layout;
  }): Promise<string> {
    const groups: Member[][] = [];
    const connection = await NodeConnection.open(port);
    for (const { pieces, bytes, files } of makeTrunks(makeFiles(node, dataBytes), layout)) {
      const trunk = await connection.upload(pieces, bytes, 'merged');
      const trunkId = parseFileName(trunk.group, trunk.name)!;
      for (const { file, entry } of files) {
        const id = makeSliceId(trunkId, entry, FILE_EXTENSION);
        const name = { group: GROUP_NAME, name: id.slice(GROUP_NAME.length + 1) };
        groups[file.group] ??= [];
        groups[file.group]!.push({ name, entry });
      }
    }
    connection.close();
    const data = `${node}-${layout}`;
    known.set(data, new SeededRandom(groups.length).shuffled(groups));
    return data;
  },

  async run(options: LoadOptions): Promise<Driven> {
    const { targets, threads, seconds, maxRequests, seed, mixed } = options;
    const connections = await Promise.all(
      Array.from({ length: threads }, () =>
        Promise.all(targets.map(({ port }) => NodeConnection.open(port))),
      ),
    );
    const written = Buffer.alloc(WRITE_BYTES, 'written');
    let requests = 0;
    const clock = startClock();
    const endMs = performance.now() + seconds * 1000;
    const isOver = (): boolean => requests >= maxRequests || performance.now() >= endMs;
    const thread = async (own: readonly NodeConnection[], index: number): Promise<void> => {
      const random = seededRandom(seed * 1000 + index);
      const choices = targets.map(({ data }) => {
        const groups = known.get(data)!;
        return { groups, zipf: new Zipf(groups.length, ZIPF_EXPONENT, random) };
      });
      let untilWrite = Math.floor(random() * READS_PER_WRITE);
      while (!isOver()) {
        const at = Math.floor(random() * targets.length);
        const { groups, zipf } = choices[at]!;
        for (const { name, entry } of groups[zipf.next() - 1]!) {
          if (isOver()) return;
          if (random() >= MEMBER_CHANCE) continue;
          const file = await own[at]!.download(name);
          if (file.length !== entry.size || crc32(file) !== entry.crc32) {
            throw new Error(`${name.name} came back with other bytes`);
          }
          requests += 1;
          untilWrite -= 1;
          if (!mixed || untilWrite > 0) continue;
          untilWrite = READS_PER_WRITE;
          await own[at]!.upload([written], WRITE_BYTES, FILE_EXTENSION);
          requests += 1;
        }
      }
    };
    try {
      await Promise.all(connections.map(thread));
    } finally {
      for (const connection of connections.flat()) connection.close();
    }
    return { operations: requests, ...clock() };
  },
};

export type LoadHandlers = typeof handlers;

serve(handlers);
