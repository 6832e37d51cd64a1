import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import { failure } from '../../support/fastdfs.js';
import { testCluster } from '../../support/interop/cluster/cluster.js';

/** Files that change, files that hang on others, names and values. */

const cluster = testCluster();

async function appender(bytes: Buffer): Promise<string> {
  return cluster.owned(await cluster.client.uploadAppender(bytes, { extension: 'log' }));
}

async function expectContent(id: string, bytes: Buffer, crc = crc32(bytes)): Promise<void> {
  expect((await cluster.client.downloadBytes(id)).equals(bytes), id).toBe(true);
  const info = await cluster.client.info(id);
  expect(info).toMatchObject({ size: bytes.length, crc32: crc });
}

async function* halves(bytes: Buffer): AsyncGenerator<Uint8Array> {
  const middle = Math.floor(bytes.length / 2);
  yield bytes.subarray(0, middle);
  yield bytes.subarray(middle);
}

test('an appender grows by arrays and by streams', async () => {
  const { client } = cluster;
  let content = randomBytes(300_000);
  const id = await appender(content);
  expect(client.describe(id)).toMatchObject({ kind: 'appender', size: undefined });
  const small = randomBytes(10);
  await client.append(id, small);
  const large = randomBytes(700_000);
  await client.append(id, halves(large), { size: large.length });
  content = Buffer.concat([content, small, large]);
  await expectContent(id, content);
});

test('an empty appender can be filled', async () => {
  const id = await appender(Buffer.alloc(0));
  expect((await cluster.client.downloadBytes(id)).length).toBe(0);
  const bytes = randomBytes(5);
  await cluster.client.append(id, bytes);
  await expectContent(id, bytes);
});

test('a change of nothing leaves the file and the connection as they were', async () => {
  const { client } = cluster;
  const content = randomBytes(1_000);
  const id = await appender(content);
  await client.append(id, Buffer.alloc(0));
  await client.modify(id, 5, Buffer.alloc(0));
  await client.truncate(id, content.length);
  await expectContent(id, content);
});

test.each([
  ['in the middle', 100],
  ['over the end', 800],
  ['at the end', 1_000],
])('bytes are overwritten %s', async (_, offset) => {
  const content = randomBytes(1_000);
  const id = await appender(content);
  const patch = randomBytes(500);
  await cluster.client.modify(id, offset, patch);
  const rest = content.subarray(offset + patch.length);
  await expectContent(id, Buffer.concat([content.subarray(0, offset), patch, rest]));
});

test.each([10, 3_000_000])('%i bytes behind the end are refused', async (size) => {
  const content = randomBytes(1_000);
  const id = await appender(content);
  const call = cluster.client.modify(id, content.length + 1, randomBytes(size));
  expect(await failure(call)).toMatchObject({ status: 22 });
  await expectContent(id, content);
});

test('an appender is cut and grown with zeros', async () => {
  const { client } = cluster;
  const content = randomBytes(1_000);
  const id = await appender(content);
  await client.truncate(id, 300);
  await expectContent(id, content.subarray(0, 300));
  await client.truncate(id, 600);
  await expectContent(id, Buffer.concat([content.subarray(0, 300), Buffer.alloc(300)]));
  await client.truncate(id, 0);
  expect((await client.info(id)).size).toBe(0);
});

test('an appender becomes a normal file under a new id', async () => {
  const { client } = cluster;
  const content = randomBytes(70_000);
  const id = await appender(content);
  const normal = cluster.owned(await client.regenerate(id));
  expect(client.describe(normal)).toMatchObject({
    kind: 'normal',
    size: content.length,
    crc32: crc32(content),
    extension: 'log',
  });
  await expectContent(normal, content);
  expect(await failure(client.info(id))).toMatchObject({ status: 2 });
  expect(await failure(client.regenerate(normal))).toMatchObject({ status: 22 });
});

test.each([10, 3_000_000])('a normal file takes no %i bytes more', async (size) => {
  const { client } = cluster;
  // Larger than what a stock storage would put into a trunk file of its own, where
  // it would answer 2.
  const content = randomBytes(17_000_000);
  const id = cluster.owned(await client.upload(content));
  expect(await failure(client.append(id, randomBytes(size)))).toMatchObject({ status: 22 });
  await expectContent(id, content);
});

test.each([
  ['_150x150', 'jpg'],
  ['-s', 'webp'],
  ['.a_long.prefix-1', ''],
])('a slave with prefix %s, extension "%s", has its master\'s name', async (prefix, extension) => {
  const { client } = cluster;
  const masterContent = randomBytes(2_000);
  const master = cluster.owned(await client.upload(masterContent, { extension: 'jpg' }));
  const content = randomBytes(900);
  const slave = cluster.owned(await client.uploadSlave(master, prefix, content, { extension }));
  expect(slave.startsWith(`${master.slice(0, -'.jpg'.length)}${prefix}`), slave).toBe(true);
  // Servers before 6.15.1 tell the CRC-32 in the name, which is the master's.
  const told = (await cluster.isBefore('6.15.1')) ? masterContent : content;
  await expectContent(slave, content, crc32(told));
  const again = client.uploadSlave(master, prefix, content, { extension });
  expect(await failure(again)).toMatchObject({ status: 17 });
  await client.delete(master);
  await expectContent(slave, content, crc32(told));
});

test('there is no slave without its master', async () => {
  const { client } = cluster;
  const master = await client.upload(randomBytes(2_000), { extension: 'jpg' });
  await client.delete(master);
  for (const size of [10, 3_000_000]) {
    const call = client.uploadSlave(master, '_big', randomBytes(size));
    expect(await failure(call)).toMatchObject({ status: 2 });
  }
});

test('metadata is set, merged, replaced and cleared', async () => {
  const { client } = cluster;
  const id = cluster.owned(await client.upload(randomBytes(10)));
  expect(await client.getMetadata(id)).toEqual({});
  await client.setMetadata(id, { width: '800', title: 'Ærø, sør' });
  expect(await client.getMetadata(id)).toEqual({ title: 'Ærø, sør', width: '800' });
  await client.setMetadata(id, { width: '1024', height: '' }, { mode: 'merge' });
  expect(await client.getMetadata(id)).toEqual({ height: '', title: 'Ærø, sør', width: '1024' });
  await client.setMetadata(id, {}, { mode: 'merge' });
  expect(Object.keys(await client.getMetadata(id))).toEqual(['height', 'title', 'width']);
  await client.setMetadata(id, { only: 'this' }, { mode: 'overwrite' });
  expect(await client.getMetadata(id)).toEqual({ only: 'this' });
  await client.setMetadata(id, {});
  expect(await client.getMetadata(id)).toEqual({});
});

test('metadata goes with its file', async () => {
  const { client } = cluster;
  const id = cluster.owned(await client.upload(randomBytes(10)));
  await client.setMetadata(id, { a: 'b' });
  await client.delete(id);
  expect(await failure(client.getMetadata(id))).toMatchObject({ code: 'not_found' });
  expect(await failure(client.setMetadata(id, { a: 'b' }))).toMatchObject({ code: 'not_found' });
});
