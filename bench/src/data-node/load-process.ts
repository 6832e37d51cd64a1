import { crc32 } from 'node:zlib';
import { open } from '@stevedore/client';
import type { FileName } from '@stevedore/protocol';
import { type Driven, drive, startClock } from '../harness/load.js';
import { NodeConnection } from '../harness/node-connection.js';
import { SeededRandom, seededRandom } from '../harness/seeded-random.js';
import { serve } from '../harness/serve.js';
import { Zipf } from '../harness/zipf.js';
import { type DataFile, FILE_EXTENSION, makeFiles } from './data-set.js';
import { type Layout, SEED } from './plan.js';

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

export interface FillArgument {
  readonly tracker: string;
  /** Of the web server. */
  readonly directory: string;
  readonly node: number;
  readonly dataBytes: number;
  readonly layout: Layout;
}

interface Member {
  readonly name: FileName;
  readonly size: number;
  readonly crc32: number;
}

/** Of the popularity of groups: the k-th most popular one is asked for k^-s as often. */
const ZIPF_EXPONENT = 0.8;
/** Chance of each member of a group to be asked for when the group is. */
const MEMBER_CHANCE = 0.9;
const READS_PER_WRITE = 20;
const GROUP_NAME = 'group1';
const WRITE_BYTES = 20_000;
/** Pages that are uploaded at a time: they fill the buffer of direct mode. */
const UPLOADS_AT_ONCE = 64;
const FLUSH_LIMIT_MS = 600_000;

/** Groups in the order of their popularity, which has nothing to do with where they lie. */
const known = new Map<string, readonly (readonly Member[])[]>();

const handlers = {
  /**
   * Stores the data of a node through the SDK, as an application does; answers with the name under
   * which it is known here. Many clients upload their pages at a time.
   */
  async fill({ tracker, directory, node, dataBytes, layout }: FillArgument): Promise<string> {
    const pages = makeFiles(node, dataBytes);
    const scattered = () => new SeededRandom(SEED).shuffled(pages.flat()).map((file) => [file]);
    const uploads = layout === 'scattered' ? scattered() : pages;
    const keys = new Map<DataFile, string>();
    const groups: Member[][] = [];
    await using store = await open({ trackers: [tracker], directory, durability: 'os' });
    const put = async (file: DataFile): Promise<void> => {
      const { key } = await store.put(file.bytes, {
        name: `a.${FILE_EXTENSION}`,
        ...(layout !== 'scattered' && { group: `page ${file.group}` }),
        ...(layout === 'direct' && { mode: 'direct' }),
      });
      keys.set(file, key);
    };
    await drive({ operations: uploads.length, concurrency: UPLOADS_AT_ONCE }, (index) =>
      Promise.all(uploads[index]!.map(put)),
    );
    if (layout !== 'direct') await store.flush({ timeoutMs: FLUSH_LIMIT_MS });
    for (const [file, key] of keys) {
      const id = layout === 'direct' ? key : await store.settled(key);
      const name = { group: GROUP_NAME, name: id.slice(GROUP_NAME.length + 1) };
      groups[file.group] ??= [];
      groups[file.group]!.push({ name, size: file.bytes.length, crc32: file.crc32 });
    }
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
        for (const { name, ...expected } of groups[zipf.next() - 1]!) {
          if (isOver()) return;
          if (random() >= MEMBER_CHANCE) continue;
          const file = await own[at]!.download(name);
          if (file.length !== expected.size || crc32(file) !== expected.crc32) {
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
