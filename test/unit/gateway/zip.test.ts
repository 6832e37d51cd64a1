import { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import { type ZipEntry, zipOf } from '../../../gateway/dist/http/zip.js';
import { fieldsOf, readAhead } from '../../support/zip-reader.js';

const modifiedAt = new Date('2026-03-01T12:34:57Z');

function entry(name: string, bytes: Buffer, size = bytes.length): ZipEntry {
  return { name, size, crc32: crc32(bytes), modifiedAt, content: bytes };
}

const all = (made: AsyncIterable<Buffer>): Promise<Buffer[]> => Readable.from(made).toArray();

async function* of(...entries: ZipEntry[]): AsyncGenerator<ZipEntry> {
  yield* entries;
}

test('everything stands ahead of the bytes, and the time in UTC', async () => {
  const bytes = Buffer.from('content');
  const content = Readable.from([bytes.subarray(0, 3), bytes.subarray(3)]);
  const pieces = { ...entry('b', bytes), content };
  const made = zipOf(of(entry('ä.txt', bytes), entry('empty', Buffer.alloc(0)), pieces));
  const read = readAhead(Buffer.concat(await all(made)));
  expect(read).toEqual([
    { name: 'ä.txt', size: 7, bytes, modifiedAt },
    { name: 'empty', size: 0, bytes: Buffer.alloc(0), modifiedAt },
    { name: 'b', size: 7, bytes, modifiedAt },
  ]);
});

test('a file that is longer or shorter than it was said to be ends the archive', async () => {
  for (const size of [2, 4]) {
    const made = zipOf(of(entry('a', Buffer.from('abc'), size)));
    await expect(all(made)).rejects.toThrow('another size');
  }
});

test('files and archives of more than 4 GiB have 64-bit numbers', async () => {
  const chunk = Buffer.alloc(2 ** 26);
  const size = 2 ** 32;
  const content = (async function* () {
    for (let sent = 0; sent < size; sent += chunk.length) yield chunk;
  })();
  const long = { name: 'long', size, crc32: 1, modifiedAt, content };
  const written: Buffer[] = [];
  for await (const each of zipOf(of(long, entry('b', Buffer.from('x'))))) {
    if (each !== chunk) written.push(each);
  }
  const [head, next, , first, second, end] = written as Buffer[];
  const offset = head!.length + size;
  const both = Buffer.alloc(16);
  both.writeBigUInt64LE(BigInt(size), 0);
  both.writeBigUInt64LE(BigInt(size), 8);
  expect(head!.readUInt32LE(18)).toBe(0xffff_ffff);
  expect(fieldsOf(head!.subarray(34)).get(1)).toEqual(both);
  expect(fieldsOf(first!.subarray(50)).get(1)).toEqual(both);
  const at = fieldsOf(second!.subarray(47)).get(1)!;
  expect([at.length, Number(at.readBigUInt64LE())]).toEqual([8, offset]);
  const directoryOffset = offset + next!.length + 1;
  expect(Number(end!.readBigUInt64LE(48))).toBe(directoryOffset);
  expect(Number(end!.readBigUInt64LE(40))).toBe(first!.length + second!.length);
  const locator = end!.subarray(56, 76);
  expect(Number(locator.readBigUInt64LE(8))).toBe(directoryOffset + first!.length + second!.length);
  expect(end!.readUInt32LE(76 + 16)).toBe(0xffff_ffff);
});
