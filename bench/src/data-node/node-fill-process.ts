import { closeSync, ftruncateSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { startStorage } from '@stevedore/node';
import {
  encodeDirectoryEntry,
  encodeEnd,
  encodeFields,
  encodeTail,
  type FileName,
  hexByte,
  localHeaderBytes,
  makeSliceId,
  normalSizeField,
  parseFileName,
  type SliceEntry,
} from '@stevedore/protocol';
import { seededRandom } from '../harness/seeded-random.js';
import { serve } from '../harness/serve.js';
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

export interface FillOptions {
  readonly directory: string;
  readonly files: number;
  readonly trunks: number;
  /** So many of the small files, and so many slices, are going to be read. */
  readonly asked: number;
}

export interface Filled {
  readonly files: readonly Asked[];
  readonly slices: readonly Asked[];
}

export type NodeFillHandlers = {
  readonly fill: (options: FillOptions) => Promise<Filled>;
};

const GROUP = 'group1';
const SOURCE = '127.0.0.1';
const FILES_PER_DIRECTORY = 100;
const FILE_BYTES = 4000;
const SLICE_BYTES = 20_000;
const CREATED_AT_SECONDS = 1_750_000_000;
/** Of the log, written at a time. */
const LOG_LINES = 10_000;
const KEY_CHARS = 22;
/** Numbers the trunks, far behind the small files. */
const FIRST_TRUNK = 42_000 * FILES_PER_DIRECTORY;
const COMMENT = JSON.stringify({
  name: 'photograph.jpg',
  type: 'image/jpeg',
  stagedAt: CREATED_AT_SECONDS * 1000,
});

const random = seededRandom(SEED);
const below = (limit: number): number => Math.floor(random() * limit);

async function fill({ directory, files, trunks, asked }: FillOptions): Promise<Filled> {
  // Whatever a storage makes at its first start.
  await (await startStorage({ port: 0, storePaths: [directory] })).close();
  const data = join(directory, 'data');
  for (let high = 0; high < 256; high += 1) mkdirSync(join(data, hexByte(high)));
  const log = openSync(join(data, 'sync', 'binlog.000'), 'a');
  let lines: string[] = [];
  const note = (name: string, isLast = false): void => {
    lines.push(`${CREATED_AT_SECONDS} C ${name}\n`);
    if (lines.length < LOG_LINES && !isLast) return;
    writeSync(log, lines.join(''));
    lines = [];
  };
  const filled = { files: writeFiles(data, files, asked, note), slices: [] as Asked[] };
  filled.slices = writeTrunks(data, trunks, asked, note);
  if (lines.length > 0) writeSync(log, lines.join(''));
  closeSync(log);
  return filled;
}

function writeFiles(
  data: string,
  count: number,
  asked: number,
  note: (name: string) => void,
): Asked[] {
  const holesCrc = crc32(Buffer.alloc(FILE_BYTES));
  const every = count / asked;
  const found: Asked[] = [];
  for (let index = 0; index < count; index += 1) {
    const isAsked = index >= Math.floor(found.length * every + every / 2) && found.length < asked;
    const bytes = isAsked ? randomBytes(FILE_BYTES) : undefined;
    const crc = bytes ? crc32(bytes) : holesCrc;
    const name = newName(index, FILE_BYTES, crc, 'bin');
    if (index % FILES_PER_DIRECTORY === 0) mkdirSync(directoryOf(data, name));
    const file = openSync(pathOf(data, name), 'wx');
    if (bytes) writeSync(file, bytes);
    else ftruncateSync(file, FILE_BYTES);
    closeSync(file);
    note(name);
    if (bytes) found.push({ group: GROUP, name, size: FILE_BYTES, crc32: crc });
  }
  return found;
}

/** Trunks of one and the same directory; of each a few slices have their bytes. */
function writeTrunks(
  data: string,
  count: number,
  asked: number,
  note: (name: string) => void,
): Asked[] {
  const pool = randomBytes(4 * SLICE_BYTES);
  const contentOf = (index: number): Buffer => {
    const at = (index * 17) % (pool.length - SLICE_BYTES);
    return pool.subarray(at, at + SLICE_BYTES);
  };
  const { entries, directoryOffset, end } = trunkDirectory(contentOf);
  const perTrunk = Math.ceil(asked / count);
  const found: Asked[] = [];
  for (let index = 0; index < count; index += 1) {
    // Behind the small files, a hundred to a directory as well.
    const name = newName(FIRST_TRUNK + index, TRUNK_BYTES, index, 'merged');
    if (index % FILES_PER_DIRECTORY === 0) mkdirSync(directoryOf(data, name), { recursive: true });
    const file = openSync(pathOf(data, name), 'wx');
    writeSync(file, end, 0, end.length, directoryOffset);
    const trunk = parseFileName(GROUP, name)!;
    for (let slice = 0; slice < perTrunk; slice += 1) {
      const at = below(entries.length);
      const entry = entries[at]!;
      writeSync(file, contentOf(at), 0, SLICE_BYTES, entry.offset);
      const id = makeSliceId(trunk, entry, 'jpg');
      found.push({
        group: GROUP,
        name: id.slice(GROUP.length + 1),
        size: SLICE_BYTES,
        crc32: entry.crc32,
      });
    }
    closeSync(file);
    note(name);
  }
  return found;
}

/** As many slices as fit, the last bytes of a trunk that is full, and where these begin. */
function trunkDirectory(contentOf: (index: number) => Buffer): {
  readonly entries: SliceEntry[];
  readonly directoryOffset: number;
  readonly end: Buffer;
} {
  const nameBytes = KEY_CHARS + '.jpg'.length;
  const headerBytes = localHeaderBytes(nameBytes);
  const directoryEntryBytes = 46 + nameBytes + COMMENT.length;
  const archiveComment = '{"stevedore":1,"taskId":"0123456789abcdef"}';
  const endBytes = 22 + archiveComment.length;
  const count = Math.floor(
    (TRUNK_BYTES - endBytes) / (headerBytes + SLICE_BYTES + directoryEntryBytes),
  );
  const entries: SliceEntry[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (let index = 0; index < count; index += 1) {
    const member = {
      name: `${String(index).padStart(KEY_CHARS, 'k')}.jpg`,
      size: SLICE_BYTES,
      crc32: crc32(contentOf(index)),
      modifiedAt: new Date(CREATED_AT_SECONDS * 1000),
      comment: COMMENT,
    };
    directory.push(encodeDirectoryEntry(member, at));
    entries.push({ offset: at + headerBytes, size: SLICE_BYTES, crc32: member.crc32 });
    at += headerBytes + SLICE_BYTES;
  }
  const table = Buffer.concat(directory);
  // What is left over lies between the last slice and the directory.
  const directoryOffset = TRUNK_BYTES - table.length - endBytes;
  const end = Buffer.concat([
    table,
    encodeEnd(count, directoryOffset, table.length, archiveComment),
  ]);
  return { entries, directoryOffset, end };
}

/** `M00/3F/A2/…`; the index gives the directory, and makes the name its own. */
function newName(index: number, size: number, crc: number, extension: string): string {
  const pair = Math.floor(index / FILES_PER_DIRECTORY) & 0xffff;
  const fields = encodeFields({
    source: SOURCE,
    createdAtSeconds: CREATED_AT_SECONDS + index,
    sizeField: normalSizeField(size, below(2 ** 20)),
    crc32: crc,
  });
  const digits = String(index % 10_000_000).padStart(7, '0');
  return `M00/${hexByte(pair >> 8)}/${hexByte(pair & 255)}/${fields}${encodeTail(extension, digits)}`;
}

function directoryOf(data: string, name: string): string {
  return join(data, name.slice(4, 6), name.slice(7, 9));
}

function pathOf(data: string, name: string): string {
  return join(data, name.slice(4));
}

function randomBytes(count: number): Buffer {
  const bytes = Buffer.allocUnsafe(count);
  for (let at = 0; at < count; at += 1) bytes[at] = below(256);
  return bytes;
}

serve({ fill } satisfies NodeFillHandlers, () => Promise.resolve());
