import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { crc32 } from 'node:zlib';
import type { Body } from '@stevedore/fastdfs';
import { describe, expect, test } from 'vitest';
import { failure } from '../../support/fastdfs.js';
import { testCluster } from '../../support/interop/cluster/cluster.js';

/** Whole files: every form of upload, every way to read, ends and errors. */

const cluster = testCluster();

const SIZES: readonly (readonly [size: number, extension: string])[] = [
  [0, 'txt'],
  [1, 'a'],
  [13, ''],
  [1000, 'jpg'],
  // Around the buffer of a stock storage.
  [2 ** 18 - 15, 'tar.gz'],
  [2 ** 18, 'x_-.y'],
  [2 ** 18 + 1, 'webp'],
  [5_000_000, 'merged'],
];

const FORMS: Readonly<Record<string, (bytes: Buffer) => { body: Body; size?: number }>> = {
  'one array': (bytes) => ({ body: bytes }),
  'a stream of its size': (bytes) => ({ body: chunks(bytes, 70_001), size: bytes.length }),
};

async function* chunks(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function stored(bytes: Buffer, extension = 'bin'): Promise<string> {
  return cluster.owned(await cluster.client.upload(bytes, { extension }));
}

describe.each(SIZES)('%i bytes, extension "%s"', (size, extension) => {
  const bytes = randomBytes(size);

  test.each(Object.keys(FORMS))('are stored from %s and come back the same', async (form) => {
    const { client } = cluster;
    const { body, ...options } = FORMS[form]!(bytes);
    const id = cluster.owned(await client.upload(body, { ...options, extension }));
    expect(id.endsWith(extension === '' ? '' : `.${extension}`), id).toBe(true);
    expect(client.describe(id)).toMatchObject({ size, crc32: crc32(bytes) });
    expect(await client.info(id)).toMatchObject({ size, crc32: crc32(bytes) });
    expect((await client.downloadBytes(id)).equals(bytes)).toBe(true);
  });

  test('are read as a stream, and in parts', async () => {
    const { client } = cluster;
    const id = await stored(bytes, extension);
    const download = await client.download(id);
    expect(download.size).toBe(size);
    expect((await buffer(download.stream)).equals(bytes)).toBe(true);

    const third = Math.floor(size / 3);
    const ranges = [
      { offset: 0, length: 1 },
      { offset: third },
      { offset: third, length: third },
      { offset: Math.max(0, size - 1), length: 500 },
      { offset: 5, length: 0 },
    ];
    for (const range of ranges) {
      const { offset, length = size } = range;
      const part = await client.downloadBytes(id, range);
      expect(part.equals(bytes.subarray(offset, offset + length)), JSON.stringify(range)).toBe(
        true,
      );
    }
  });

  test('are gone once they are deleted', async () => {
    const { client } = cluster;
    const id = await stored(bytes, extension);
    await client.delete(id);
    for (const call of ['downloadBytes', 'info', 'delete'] as const) {
      expect(await failure(client[call](id)), call).toMatchObject({ code: 'not_found', status: 2 });
    }
  });
});

test('a file of 100 MB goes through in a stream both ways', async () => {
  const { client } = cluster;
  const piece = randomBytes(2 ** 20);
  const count = 100;
  async function* pieces() {
    for (let index = 0; index < count; index++) yield piece;
  }
  const size = piece.length * count;
  const id = cluster.owned(await client.upload(pieces(), { size, extension: 'iso' }));
  let read = 0;
  let sum = 0;
  for await (const chunk of (await client.download(id)).stream as AsyncIterable<Buffer>) {
    read += chunk.length;
    sum = crc32(chunk, sum);
  }
  expect(read).toBe(size);
  expect(await client.info(id)).toMatchObject({ size, crc32: sum });
  expect(await failure(client.downloadBytes(id))).toMatchObject({ code: 'too_large' });
  const end = await client.downloadBytes(id, { offset: size - 1000 });
  expect(end.equals(piece.subarray(-1000))).toBe(true);
});

test('two hundred files at once keep apart', async () => {
  const { client } = cluster;
  const bodies = Array.from({ length: 200 }, (_, index) => randomBytes(1 + index * 50));
  const ids = await Promise.all(bodies.map((bytes) => stored(bytes)));
  expect(new Set(ids).size).toBe(ids.length);
  const read = await Promise.all(ids.map((id) => client.downloadBytes(id)));
  for (const [index, bytes] of bodies.entries()) expect(read[index]!.equals(bytes)).toBe(true);
});

test('a group that is named is used, one that is not there is an error', async () => {
  const { client } = cluster;
  const { group } = client.describe(await stored(randomBytes(10)));
  const id = cluster.owned(await client.upload(randomBytes(10), { group }));
  expect(client.describe(id).group).toBe(group);
  const call = client.upload(randomBytes(10), { group: 'noSuchGroup' });
  expect(await failure(call)).toMatchObject({ code: 'unknown_group', status: 2 });
});

test('reading from behind the end yields nothing, and the next call works', async () => {
  const { client } = cluster;
  const bytes = randomBytes(100);
  const id = await stored(bytes);
  for (const offset of [100, 101]) {
    // Servers before 6.15.4 send no bytes from the very end.
    if (await cluster.isBefore('6.15.4')) {
      expect((await client.downloadBytes(id, { offset })).length).toBe(0);
      continue;
    }
    expect(await failure(client.downloadBytes(id, { offset }))).toMatchObject({ status: 22 });
    expect(await failure(client.download(id, { offset }))).toMatchObject({ status: 22 });
  }
  expect((await client.downloadBytes(id)).equals(bytes)).toBe(true);
});

test('names that no server gave are not found', async () => {
  const { client } = cluster;
  const id = await stored(randomBytes(100));
  const { group, name } = client.describe(id);
  const other = `${name.slice(0, 30)}${name[30] === 'A' ? 'B' : 'A'}${name.slice(31)}`;
  expect(await failure(client.info(`${group}/${other}`))).toMatchObject({ status: 2 });
  expect(await failure(client.info(`noSuchGroup/${name}`))).toMatchObject({ status: 2 });
  const lastPath = `${group}/MFF${name.slice(3)}`;
  expect(await failure(client.downloadBytes(lastPath))).toMatchObject({ status: 22 });
});

test.each([
  ['fewer', 1001],
  ['more', 999],
])('a body of %s bytes than its size is an error, and the next call works', async (_, size) => {
  const { client } = cluster;
  const bytes = randomBytes(1000);
  const call = client.upload(chunks(bytes, 100), { size });
  expect(await failure(call)).toMatchObject({ code: 'length_mismatch' });
  expect((await client.downloadBytes(await stored(bytes))).equals(bytes)).toBe(true);
});
