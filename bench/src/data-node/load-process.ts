import { crc32 } from 'node:zlib';
import { open } from '@stevedore/client';
import type { FileName } from '@stevedore/protocol';
import { Closing } from '../harness/closing.js';
import { makeFileSet } from '../harness/file-set.js';
import { type Driven, drive, startClock } from '../harness/load.js';
import { NodeConnection } from '../harness/node-connection.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { Zipf } from '../harness/zipf.js';
import { type Layout, SEED } from './plan.js';

/**
 * The load generator. A thread of it is a connection that asks for one file after the
 * other: it chooses a group by its popularity and asks for its members in turn, most of
 * them, as a browser does for a page's images. Every answer is held against its CRC-32.
 */

export interface Target {
  readonly port: number;
  /** What is stored there, by its name here. */
  readonly data: string;
}

export interface LoadOptions {
  readonly threads: number;
  readonly seconds: number;
  /** No more requests than these. */
  readonly maxRequests: number;
  readonly seed: number;
  /** One write for so many reads; false: reads alone. */
  readonly mixed: boolean;
}

interface DataFile {
  readonly group: number;
  readonly bytes: Buffer;
  readonly crc: number;
}

interface Member {
  readonly name: FileName;
  readonly size: number;
  readonly crc: number;
}

/** Of the popularity of groups: the k-th most popular one is asked for k^-s as often. */
const ZIPF_EXPONENT = 0.8;
/** Chance of each member of a group to be asked for when the group is. */
const MEMBER_CHANCE = 0.9;
const READS_PER_WRITE = 20;
const GROUP_NAME = 'group1';
const FILE_EXTENSION = 'jpg';
const FILE_BYTES = { minBytes: 5_000, maxBytes: 50_000 };
const MEMBERS = [4, 12] as const;
const WRITTEN = Buffer.alloc(20_000, 'written');
/** Pages that are uploaded at a time: they fill the buffer of direct mode. */
const UPLOADS_AT_ONCE = 64;
const FLUSH_LIMIT_MS = 600_000;

/** Groups in the order of their popularity, which has nothing to do with where they lie. */
const known = new Map<string, readonly (readonly Member[])[]>();

/** By groups; the same for the same node. */
function makeFiles(node: number, totalBytes: number): DataFile[][] {
  const files = makeFileSet({ ...FILE_BYTES, seed: SEED + node, totalBytes });
  const random = new SeededRandom(SEED + node);
  const groups: DataFile[][] = [];
  while (files.length > 0) {
    const members = files.splice(-MEMBERS[0] - random.below(MEMBERS[1] - MEMBERS[0] + 1));
    const group = groups.length;
    groups.push(members.map(({ bytes }) => ({ group, bytes, crc: crc32(bytes) })));
  }
  return groups;
}

/**
 * Stores the data of a node through the SDK, as an application with this directory does; answers with
 * its name. Many clients upload their pages at a time.
 */
export async function fill(
  trackers: readonly string[],
  directory: string,
  layout: Layout,
  { node, dataBytes }: { readonly node: number; readonly dataBytes: number },
): Promise<string> {
  const pages = makeFiles(node, dataBytes);
  const scattered = () => new SeededRandom(SEED).shuffled(pages.flat()).map((file) => [file]);
  const uploads = layout === 'scattered' ? scattered() : pages;
  const keys = new Map<DataFile, string>();
  const groups: Member[][] = [];
  await using store = await open({ trackers, directory, durability: 'os' });
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
  for (const [{ group, bytes, crc }, key] of keys) {
    const id = layout === 'direct' ? key : await store.settled(key);
    const name = { group: GROUP_NAME, name: id.slice(GROUP_NAME.length + 1) };
    groups[group] ??= [];
    groups[group]!.push({ name, size: bytes.length, crc });
  }
  const data = `${node}-${layout}`;
  known.set(data, new SeededRandom(groups.length).shuffled(groups));
  return data;
}

export async function run(targets: readonly Target[], options: LoadOptions): Promise<Driven> {
  const { threads, seconds, maxRequests, seed, mixed } = options;
  await using closing = new Closing();
  const connect = () =>
    Promise.all(targets.map(async ({ port }) => closing.use(await NodeConnection.open(port))));
  const connections = await Promise.all(Array.from({ length: threads }, connect));
  let operations = 0;
  const clock = startClock();
  const endMs = performance.now() + seconds * 1000;
  const isOver = (): boolean => operations >= maxRequests || performance.now() >= endMs;
  const thread = async (own: readonly NodeConnection[], index: number): Promise<void> => {
    const random = new SeededRandom(seed * 1000 + index).next;
    const choices = targets.map(({ data }) => {
      const groups = known.get(data)!;
      return { groups, zipf: new Zipf(groups.length, ZIPF_EXPONENT, random) };
    });
    let untilWrite = Math.floor(random() * READS_PER_WRITE);
    while (!isOver()) {
      const at = Math.floor(random() * targets.length);
      const { groups, zipf } = choices[at]!;
      for (const { name, size, crc } of groups[zipf.next() - 1]!) {
        if (isOver()) return;
        if (random() >= MEMBER_CHANCE) continue;
        const file = await own[at]!.download(name);
        if (file.length !== size || crc32(file) !== crc) {
          throw new Error(`${name.name} came back with other bytes`);
        }
        operations += 1;
        untilWrite -= 1;
        if (!mixed || untilWrite > 0) continue;
        untilWrite = READS_PER_WRITE;
        await own[at]!.upload([WRITTEN], WRITTEN.length, FILE_EXTENSION);
        operations += 1;
      }
    }
  };
  await Promise.all(connections.map(thread));
  return { operations, ...clock() };
}
