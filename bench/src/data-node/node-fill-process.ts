import { closeSync, ftruncateSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { startStorage } from '@stevedore/node';
import {
  encodeFields,
  encodeTail,
  type FileName,
  hexByte,
  makeSliceId,
  normalSizeField,
  parseFileName,
  type SliceEntry,
} from '@stevedore/protocol';
import type { FileRow } from '@stevedore/staging';
import {
  bytesInTrunk,
  encodeDirectory,
  planTrunk,
  TRUNK_END_BYTES,
} from '../../../packages/staging/dist/merge/trunk-plan.js';
import { randomPool } from '../harness/file-set.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { generatedKey } from '../staging/small-files.js';
import { SEED, TRUNK_BYTES } from './plan.js';

/**
 * Fills the directory of a storage as uploads would have, but fast: names, directories,
 * log and trunks as they are, and real bytes where they are going to be read. All
 * other content is holes.
 */

export interface Asked extends FileName {
  readonly size: number;
  readonly crc32: number;
}

export interface Filled {
  readonly files: readonly Asked[];
  readonly slices: readonly Asked[];
}

const GROUP = 'group1';
const FILES_PER_DIRECTORY = 100;
const FILE_BYTES = 4000;
const SLICE_BYTES = 20_000;
const CREATED_AT_SECONDS = 1_750_000_000;
/** Of the log, written at a time. */
const LOG_LINES = 10_000;
/** Numbers the trunks, far behind the small files. */
const FIRST_TRUNK = 42_000 * FILES_PER_DIRECTORY;
const POOL_BYTES = 2 ** 20;

const random = new SeededRandom(SEED);
const pool = randomPool(SEED, POOL_BYTES);

function someBytes(index: number, count: number): Buffer {
  const at = (index * 17) % (POOL_BYTES - count);
  return pool.subarray(at, at + count);
}

/** `asked`: so many of the small files, and so many slices, are going to be read. */
export async function fill(
  directory: string,
  { files, trunks }: { readonly files: number; readonly trunks: number },
  asked: number,
): Promise<Filled> {
  // Whatever a storage makes at its first start.
  await (await startStorage({ port: 0, storePaths: [directory] })).close();
  const data = join(directory, 'data');
  for (let high = 0; high < 256; high += 1) mkdirSync(join(data, hexByte(high)));
  const log = openSync(join(data, 'sync', 'binlog.000'), 'a');
  let lines: string[] = [];
  const flush = (): void => {
    writeSync(log, lines.join(''));
    lines = [];
  };
  const make: Make = (index, name) => {
    if (index % FILES_PER_DIRECTORY === 0)
      mkdirSync(join(data, name.slice(4, 9)), { recursive: true });
    lines.push(`${CREATED_AT_SECONDS} C ${name}\n`);
    if (lines.length >= LOG_LINES) flush();
    return openSync(join(data, name.slice(4)), 'wx');
  };
  const filled = {
    files: writeFiles(make, files, asked),
    slices: writeTrunks(make, trunks, Math.ceil(asked / trunks)),
  };
  flush();
  closeSync(log);
  return filled;
}

/** Makes a file, and tells the log of it. */
type Make = (index: number, name: string) => number;

function writeFiles(make: Make, count: number, asked: number): Asked[] {
  const holesCrc = crc32(Buffer.alloc(FILE_BYTES));
  const every = count / asked;
  const found: Asked[] = [];
  for (let index = 0; index < count; index += 1) {
    const isAsked = index >= Math.floor(found.length * every + every / 2) && found.length < asked;
    const bytes = isAsked ? someBytes(index, FILE_BYTES) : undefined;
    const crc = bytes ? crc32(bytes) : holesCrc;
    const name = newName(index, FILE_BYTES, crc, 'bin');
    const file = make(index, name);
    if (bytes) writeSync(file, bytes);
    else ftruncateSync(file, FILE_BYTES);
    closeSync(file);
    if (bytes) found.push({ group: GROUP, name, size: FILE_BYTES, crc32: crc });
  }
  return found;
}

/** Trunks of one and the same directory; of each a few slices have their bytes. */
function writeTrunks(make: Make, count: number, perTrunk: number): Asked[] {
  const { entries, end, size } = fullTrunk();
  const found: Asked[] = [];
  for (let index = 0; index < count; index += 1) {
    const name = newName(FIRST_TRUNK + index, size, index, 'merged');
    const file = make(index, name);
    writeSync(file, end, 0, end.length, size - end.length);
    const trunk = parseFileName(GROUP, name)!;
    for (let slice = 0; slice < perTrunk; slice += 1) {
      const at = random.below(entries.length);
      const entry = entries[at]!;
      writeSync(file, someBytes(at, SLICE_BYTES), 0, SLICE_BYTES, entry.offset);
      const sliceName = makeSliceId(trunk, entry, 'jpg').slice(GROUP.length + 1);
      found.push({ group: GROUP, name: sliceName, size: SLICE_BYTES, crc32: entry.crc32 });
    }
    closeSync(file);
  }
  return found;
}

/** A trunk with as many slices as fit: its slices, its last bytes and its size. */
function fullTrunk() {
  const rowOf = (index: number): FileRow => ({
    ...{ key: generatedKey(index), name: 'photograph.jpg', type: 'image/jpeg', group: undefined },
    ...{ size: SLICE_BYTES, crc32: crc32(someBytes(index, SLICE_BYTES)), expiresAt: undefined },
    ...{ stagedAt: CREATED_AT_SECONDS * 1000, was: [], trunk: undefined },
    local: { at: 'container', segment: 1, position: 0 },
  });
  const length = Math.floor((TRUNK_BYTES - TRUNK_END_BYTES) / bytesInTrunk(rowOf(0)));
  const rows = Array.from({ length }, (_, index) => rowOf(index));
  const plan = planTrunk(Buffer.alloc(16), rows, 'merged');
  const entries: SliceEntry[] = plan.members.map(({ offset, size }, index) => ({
    ...{ offset, size, crc32: rows[index]!.crc32 },
  }));
  return { entries, end: Buffer.concat([...encodeDirectory(plan)]), size: plan.size };
}

/** `M00/3F/A2/…`; the index gives the directory, and makes the name its own. */
function newName(index: number, size: number, crc: number, extension: string): string {
  const pair = Math.floor(index / FILES_PER_DIRECTORY) & 0xffff;
  const fields = encodeFields({
    source: '127.0.0.1',
    createdAtSeconds: CREATED_AT_SECONDS + index,
    sizeField: normalSizeField(size, random.below(2 ** 20)),
    crc32: crc,
  });
  const digits = String(index % 10_000_000).padStart(7, '0');
  return `M00/${hexByte(pair >> 8)}/${hexByte(pair & 255)}/${fields}${encodeTail(extension, digits)}`;
}
