import { crc32 } from 'node:zlib';
import {
  encodeDirectoryEntry,
  encodeEnd,
  encodeLocalHeader,
  endBytes,
  memberBytes,
  type SliceEntry,
  type TrunkMember,
} from '@stevedore/protocol';
import { logUniform, randomPool } from '../harness/file-set.js';
import { SeededRandom, seededRandom } from '../harness/seeded-random.js';
import { type Layout, SEED, TRUNK_BYTES } from './plan.js';

/**
 * The files: groups of 4 to 12, about 20 KB each, packed into trunks as the Merge Task
 * writes them. Bodies are views of a pool of random bytes at random places. The same
 * for the same seed.
 */

export interface DataFile {
  readonly group: number;
  readonly bytes: Buffer;
  readonly crc32: number;
}

export interface BuiltTrunk {
  /** The trunk in pieces, to be sent one behind the other. */
  readonly pieces: readonly Buffer[];
  readonly bytes: number;
  readonly files: readonly { readonly file: DataFile; readonly entry: SliceEntry }[];
}

export const FILE_EXTENSION = 'jpg';
const FILE_BYTES = [5_000, 50_000] as const;
const MEMBERS = [4, 12] as const;
const POOL_BYTES = 32 * 2 ** 20;
const COMMENT = JSON.stringify({ stevedore: 1, taskId: '' });

export function makeFiles(node: number, dataBytes: number): DataFile[] {
  const random = seededRandom(SEED + node);
  const pool = randomPool(SEED, POOL_BYTES);
  const files: DataFile[] = [];
  let total = 0;
  for (let group = 0; total < dataBytes; group += 1) {
    const members = MEMBERS[0] + Math.floor(random() * (MEMBERS[1] - MEMBERS[0] + 1));
    for (let member = 0; member < members; member += 1) {
      const size = logUniform(random, ...FILE_BYTES);
      const from = Math.floor(random() * (POOL_BYTES - size));
      const bytes = pool.subarray(from, from + size);
      files.push({ group, bytes, crc32: crc32(bytes) });
      total += size;
    }
  }
  return files;
}

/** Co-located: in the order of their groups. Scattered: in any order, and no group is known. */
export function* makeTrunks(files: readonly DataFile[], layout: Layout): Generator<BuiltTrunk> {
  const order = layout === 'scattered' ? new SeededRandom(SEED).shuffled(files) : files;
  let members: DataFile[] = [];
  let bytes = endBytes(COMMENT.length);
  for (const [index, file] of order.entries()) {
    const { name, comment } = memberOf(file, index, layout);
    const more = memberBytes(name.length, comment.length, file.bytes.length);
    if (bytes + more > TRUNK_BYTES) {
      yield build(members, layout);
      members = [];
      bytes = endBytes(COMMENT.length);
    }
    members.push(file);
    bytes += more;
  }
  if (members.length > 0) yield build(members, layout);
}

function build(files: readonly DataFile[], layout: Layout): BuiltTrunk {
  const pieces: Buffer[] = [];
  const directory: Buffer[] = [];
  const placed: { file: DataFile; entry: SliceEntry }[] = [];
  let at = 0;
  for (const [index, file] of files.entries()) {
    const member = memberOf(file, index, layout);
    const header = encodeLocalHeader(member);
    directory.push(encodeDirectoryEntry(member, at));
    const entry = { offset: at + header.length, size: member.size, crc32: member.crc32 };
    placed.push({ file, entry });
    pieces.push(header, file.bytes);
    at = entry.offset + entry.size;
  }
  const table = Buffer.concat(directory);
  pieces.push(table, encodeEnd(files.length, at, table.length, COMMENT));
  const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
  return { pieces, bytes, files: placed };
}

function memberOf(file: DataFile, index: number, layout: Layout): TrunkMember {
  const group = layout === 'co-located' ? { group: `page ${file.group}` } : {};
  return {
    name: `${String(index).padStart(22, '0')}.${FILE_EXTENSION}`,
    size: file.bytes.length,
    crc32: file.crc32,
    modifiedAt: new Date(0),
    comment: JSON.stringify({ name: 'a.jpg', type: 'image/jpeg', ...group, stagedAt: 0 }),
  };
}
