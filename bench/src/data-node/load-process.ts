import { crc32 } from 'node:zlib';
import { open } from '@stevedore/client';
import { makeFileSet } from '../harness/file-set.js';
import { drive } from '../harness/load.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { type Layout, SEED } from './plan.js';
import { FILE_EXTENSION, type Member, read as readFrom } from './reading.js';

/** The process of an application that stores the files of a node, and of the load on this machine. */

interface DataFile {
  readonly group: number;
  readonly bytes: Buffer;
  readonly crc: number;
}

const GROUP_NAME = 'group1';
const FILE_BYTES = { minBytes: 5_000, maxBytes: 50_000 };
const MEMBERS = [4, 12] as const;
/** Pages that are uploaded at a time: they fill the buffer of direct mode. */
const UPLOADS_AT_ONCE = 64;
const FLUSH_LIMIT_MS = 600_000;

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
 * Stores the data of a node through the SDK, as an application with this directory does. Many clients
 * upload their pages at a time. Answers with the groups in the order of their popularity, which has
 * nothing to do with where they lie.
 */
export async function fill(
  trackers: readonly string[],
  directory: string,
  layout: Layout,
  { node, dataBytes }: { readonly node: number; readonly dataBytes: number },
): Promise<readonly (readonly Member[])[]> {
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
  return new SeededRandom(groups.length).shuffled(groups);
}

export const read = readFrom;
