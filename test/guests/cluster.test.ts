import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { crc32 } from 'node:zlib';
import { FrameServer } from '@stevedore/fastdfs/testing';
import {
  downloadFile,
  encodeReply,
  encodeRequestHead,
  type FileName,
  type GuestRequest,
  getMetadata,
  guestStore,
  metadataServerReport,
  parseFileId,
  queryFileInfo,
  Status,
  setMetadata,
} from '@stevedore/protocol';
import { askMigration } from '@stevedore/storage';
import { expect, onTestFinished, test } from 'vitest';
import { Exchange } from '../../packages/storage/dist/guests/exchange.js';
import { RawClient, trackerOf, until } from '../storage/support.js';
import { content, nodeOf, SIZE, TIERS, withMoved } from '../support/two-groups.js';

/** Metadata servers of two groups and a tracker; clients that know of nothing. */

function nameOf(fileId: string): FileName {
  const { group, name } = parseFileId(fileId)!;
  return { group, name };
}

test('files of an overloaded server go to one of another group, and stock clients do not notice', async () => {
  const { home, other, client, ids } = await withMoved(4);
  expect(home.storage.migrationStatus()).toMatchObject({
    rows: { files: 0 },
    guestFiles: { files: 4, bytes: 4 * SIZE },
    neighbours: [{ group: 'group2', id: '127.0.0.1' }],
  });
  expect(other.storage.migrationStatus()!.rows).toEqual({ files: 4, bytes: 4 * SIZE });
  for (const [n, id] of ids.entries()) {
    expect(await client.downloadBytes(id)).toEqual(content(n));
    expect(await client.downloadBytes(id, { offset: 10, length: 10 })).toEqual(
      content(n).subarray(10, 20),
    );
    expect(await client.info(id)).toMatchObject({ size: SIZE, crc32: crc32(content(n)) });
    expect(await client.getMetadata(id)).toEqual({ n: String(n) });
    await client.setMetadata(id, { changed: 'yes' });
    expect(await client.getMetadata(id)).toEqual({ changed: 'yes' });
  }
  const lines = readFileSync(join(home.folder, 'data', '.stevedore-moves.jsonl'), 'utf8');
  expect(lines).toContain('"to":"group2 127.0.0.1","reason":"load"');

  // Frames as any client sends them.
  const raw = await RawClient.open(home.storage.port);
  const file = nameOf(ids[0]!);
  const whole = await raw.ask(downloadFile, { ...file, offset: 0, length: 0 });
  expect(whole).toEqual({ status: 0, answer: content(0) });
  expect((await raw.ask(queryFileInfo, file)).answer).toMatchObject({ size: SIZE });
  const metadata = Buffer.from('k\x02v');
  expect((await raw.ask(setMetadata, { ...file, mode: 'overwrite', metadata })).status).toBe(0);
  expect((await raw.ask(getMetadata, file)).answer).toEqual(metadata);

  // What is changed comes home, and stays there while nothing moves.
  await askMigration(`127.0.0.1:${home.storage.port}`, 'pause');
  await client.append(ids[0]!, Buffer.from('more'));
  expect(await client.downloadBytes(ids[0]!)).toEqual(
    Buffer.concat([content(0), Buffer.from('more')]),
  );
  await client.truncate(ids[1]!, 10);
  expect(await client.downloadBytes(ids[1]!)).toEqual(content(1).subarray(0, 10));
  await client.modify(ids[2]!, 1, Buffer.from('xyz'));
  expect((await client.downloadBytes(ids[2]!)).subarray(0, 5).toString('latin1')).toBe(
    '\x03xyz\x03',
  );
  await client.delete(ids[3]!);
  await expect(client.downloadBytes(ids[3]!)).rejects.toMatchObject({ code: 'not_found' });
  await until(() => home.storage.migrationStatus()!.waitingDepartures === 0);
  expect(home.storage.migrationStatus()!.guestFiles.files).toBe(0);
  expect(other.storage.migrationStatus()!.rows.files).toBe(0);
  expect([...home.errors, ...other.errors]).toEqual([]);
});

test('the npm package fdfs reads, describes, changes and deletes a file that has gone', async () => {
  const { tracker, ids } = await withMoved(1);
  const [id] = ids as [string];
  const Fdfs = createRequire(import.meta.url)('fdfs') as new (
    options: object,
  ) => {
    download(id: string, options: { target: PassThrough }): unknown;
    getFileInfo(id: string): Promise<{ readonly size: number }>;
    getMetaData(id: string): Promise<unknown>;
    upload(body: Buffer, options: object): Promise<unknown>;
    del(id: string): Promise<void>;
  };
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const trackers = [{ host: '127.0.0.1', port: tracker }];
  const client = new Fdfs({ trackers, timeout: 10_000, logger });
  const read = async () => {
    const target = new PassThrough();
    const bytes = buffer(target);
    await client.download(id, { target });
    return bytes;
  };
  expect(await read()).toEqual(content(0));
  expect(await client.getFileInfo(id)).toMatchObject({ size: SIZE });
  expect(await client.getMetaData(id)).toEqual({ n: '0' });
  await client.upload(Buffer.from('more'), { method: 'append', fileId: id });
  expect(await read()).toEqual(Buffer.concat([content(0), Buffer.from('more')]));
  await client.del(id);
  await expect(client.getFileInfo(id)).rejects.toBeDefined();
});

test('a cluster with a secret keeps its guests to itself', async () => {
  const secret = 'sixteen bytes and more';
  const { other, client, ids } = await withMoved(1, { secret });
  expect(await client.downloadBytes(ids[0]!)).toEqual(content(0));
  const stranger = await RawClient.open(other.storage.port);
  const request = {
    homeGroup: 'group1',
    homeId: '1',
    name: 'M00',
    size: 1,
    crc32: 1,
    loadBytes: 1,
  };
  stranger.send(encodeRequestHead(guestStore, request));
  expect((await stranger.exchange(Buffer.from('x'))).status).toBe(Status.accessDenied);
});

test('a tracker that does not know metadata servers is left alone, another one is asked', async () => {
  let asked = 0;
  const stock = await FrameServer.listen({
    onRequest: ({ socket }) => {
      asked += 1;
      socket.write(encodeReply(Status.invalid));
    },
  });
  onTestFinished(() => stock.close());
  const lists: unknown[] = [];
  const known = await FrameServer.listen({
    onRequest: ({ socket }) => {
      const body = metadataServerReport.reply.encode({ lease: undefined, servers: [] });
      socket.write(encodeReply(Status.ok, body));
    },
  });
  onTestFinished(() => known.close());
  const exchange = new Exchange({
    trackers: [stock, known].map(({ port }) => ({ host: '127.0.0.1', port })),
    timeoutMs: 5000,
    access: { secret: undefined, withoutSecret: 'nothing' },
  });
  onTestFinished(() => exchange.close());
  const load = {
    group: 'group1',
    id: '10.0.0.1',
    port: 23_000,
    intervalMs: 1000,
    capacityBytes: 1,
    metadataBytes: 0,
    smallFileBytes: 0,
    markPerMille: 1000,
    toMoveBytes: 0,
  };
  for (let n = 0; n < 3; n += 1) lists.push(await exchange.report(load));
  expect(lists).toEqual(Array(3).fill({ lease: undefined, servers: [] }));
  expect(asked).toBe(1);
  await known.close();
  expect(await exchange.report(load)).toBeUndefined();
});

test('a server that is away makes its files wait, not their metadata; they outlive restarts of both', async () => {
  const { tracker, home, other, client, ids } = await withMoved(2);
  const [id] = ids as [string, string];
  const { port } = other.storage;
  await other.storage.close();
  const calm = { ...TIERS, guestAwayMs: 100 };
  await home.storage.close();
  const again = await nodeOf(tracker, 'group1', calm, {
    folder: home.folder,
    port: home.storage.port,
  });
  const raw = await RawClient.open(again.storage.port);
  const file = nameOf(id);
  const read = () => raw.ask(downloadFile, { ...file, offset: 0, length: 0 });
  expect((await read()).status).toBe(Status.tryAgain);
  expect((await raw.ask(getMetadata, file)).status).toBe(0);
  expect((await raw.ask(queryFileInfo, file, 1)).answer).toMatchObject({ size: SIZE });
  await nodeOf(tracker, 'group2', TIERS, { folder: other.folder, port });
  await until(async () => (await read()).status === 0);
  expect((await read()).answer).toEqual(content(0));

  // Called back, all of it, and it stays here until `resume`.
  const status = await askMigration(`127.0.0.1:${again.storage.port}`, 'recall');
  expect(status.isRecalling).toBe(true);
  await until(() => again.storage.migrationStatus()!.guestFiles.files === 0);
  await until(() => again.storage.migrationStatus()!.waitingDepartures === 0);
  for (const [n, each] of ids.entries())
    expect(await client.downloadBytes(each)).toEqual(content(n));
  const { isRecalling } = await askMigration(`127.0.0.1:${again.storage.port}`, 'resume');
  expect(isRecalling).toBe(false);
});

test('guests come in under names of guests only, whole, from one server in an interval', async () => {
  const { port: tracker } = await trackerOf();
  // Nothing ends while the test looks at one interval.
  const node = await nodeOf(tracker, 'group2', { ...TIERS, intervalMs: 300 });
  await until(() => node.storage.migrationStatus()!.intervals > 0);
  const connect = () => RawClient.open(node.storage.port);
  const bytes = Buffer.from('the bytes of a guest');
  let number = 0;
  const give = async (changes: Partial<GuestRequest> = {}) => {
    number += 1;
    const name = `M00/00/00/${'c'.repeat(27)}g${String(number).padStart(12, '0')}.moved`;
    const request = {
      homeGroup: 'group1',
      homeId: '10.0.0.1',
      name,
      size: bytes.length,
      crc32: crc32(bytes),
      loadBytes: 100,
      ...changes,
    };
    const raw = await connect();
    raw.send(encodeRequestHead(guestStore, request));
    const { status } = await raw.exchange(bytes);
    return { status, name: request.name };
  };
  const taken = await give();
  expect(taken.status).toBe(0);
  const file = { group: 'group2', name: taken.name };
  const raw = await connect();
  expect((await raw.ask(downloadFile, { ...file, offset: 0, length: 0 })).answer).toEqual(bytes);
  expect((await give({ name: taken.name })).status).toBe(Status.exists);
  expect((await give({ crc32: 1 })).status).toBe(Status.ioError);
  expect((await give({ loadBytes: 1e12 })).status).toBe(Status.busy);
  expect((await give({ name: `M00/00/00/${'c'.repeat(27)}12.moved` })).status).toBe(Status.invalid);
  expect((await give({ name: `M01/00/00/${'c'.repeat(27)}g${'0'.repeat(12)}.moved` })).status).toBe(
    Status.invalid,
  );
  // Within an interval the second home is refused; in some later one it may be the first.
  const { intervals } = node.storage.migrationStatus()!;
  await until(() => node.storage.migrationStatus()!.intervals > intervals);
  expect((await give()).status).toBe(0);
  const other = await give({ homeId: '10.0.0.3' });
  if (node.storage.migrationStatus()!.intervals === intervals + 1) {
    expect(other.status).toBe(Status.busy);
  }
});
