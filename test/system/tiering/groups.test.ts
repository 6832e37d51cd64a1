import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { crc32 } from 'node:zlib';
import { FastdfsClient } from '@stevedore/fastdfs';
import { downloadFile, migrationRoom, parseFileId, Status } from '@stevedore/protocol';
import { askMigration } from '@stevedore/tiering/control';
import { startTracker } from '@stevedore/tracker';
import { expect, onTestFinished, test } from 'vitest';
import { RawClient, until } from '../../support/storage/support.js';
import { content, LEAVING, nodeOf, SIZE, withMoved } from '../../support/two-groups.js';

/** Storages of two groups and a tracker; clients that know of nothing. */

test('files go to another group, a plain one, and stock clients do not notice', async () => {
  const { home, other, client, ids } = await withMoved(4);
  expect(home.storage.migrationStatus()).toMatchObject({
    rows: { files: 0 },
    remote: { files: 4, bytes: 4 * SIZE },
    openCopies: 0,
  });
  expect(other.storage.migrationStatus()).toBeUndefined();
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
  expect(lines).toContain('"to":"group2","reason":"space"');

  // Frames as any client sends them.
  const raw = await RawClient.open(home.storage.port);
  const { group, name } = parseFileId(ids[0]!)!;
  const whole = await raw.ask(downloadFile, { group, name, offset: 0, length: 0 });
  expect(whole).toEqual({ status: Status.ok, answer: content(0) });

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
  await until(() => home.storage.migrationStatus()!.unwantedCopies === 0);
  expect(home.storage.migrationStatus()!.remote.files).toBe(0);
  const copies = [];
  const at = { group: 'group2', address: '127.0.0.1', port: other.storage.port };
  for await (const { fileId } of client.listFiles(at)) copies.push(fileId);
  expect(copies).toEqual([]);
  expect([...home.errors, ...other.errors]).toEqual([]);
});

test('a client of ours reads a moved file where it is, and asks its home no more', async () => {
  const { home, client, ids } = await withMoved(2, { normal: true, followMoves: true });
  expect(await client.downloadBytes(ids[0]!)).toEqual(content(0));
  const { stream } = await client.download(ids[1]!, { offset: 1 });
  expect(await buffer(stream)).toEqual(content(1).subarray(1));
  await home.storage.close();
  for (const [n, id] of ids.entries()) {
    expect(await client.downloadBytes(id)).toEqual(content(n));
    expect(await client.downloadBytes(id, { offset: 3, length: 4 })).toHaveLength(4);
    expect(await buffer((await client.download(id)).stream)).toEqual(content(n));
  }
});

test('a place where the file is no more leads home', async () => {
  const { home, other, client, ids } = await withMoved(2, { normal: true, followMoves: true });
  for (const id of ids) await client.downloadBytes(id);
  await askMigration(`127.0.0.1:${home.storage.port}`, 'recall');
  await until(() => home.storage.migrationStatus()!.remote.files === 0);
  await until(() => home.storage.migrationStatus()!.unwantedCopies === 0);
  expect(await client.downloadBytes(ids[0]!)).toEqual(content(0));
  expect(await buffer((await client.download(ids[1]!)).stream)).toEqual(content(1));
  // What this client deletes it does not read again.
  await client.delete(ids[0]!);
  await expect(client.downloadBytes(ids[0]!)).rejects.toMatchObject({ code: 'not_found' });
  expect([...home.errors, ...other.errors]).toEqual([]);
});

test('a file that can change, and a reader who names a storage, are answered by the home', async () => {
  const { home, other, client, ids } = await withMoved(1, { followMoves: true });
  expect(await client.downloadBytes(ids[0]!)).toEqual(content(0));
  const normal = await withMoved(1, { normal: true, followMoves: true });
  const storage = { address: '127.0.0.1', port: normal.home.storage.port };
  expect(await normal.client.downloadBytes(normal.ids[0]!, { storage })).toEqual(content(0));
  for (const [node, reader, id] of [
    [home, client, ids[0]!],
    [normal.home, normal.client, normal.ids[0]!],
  ] as const) {
    await node.storage.close();
    await expect(reader.downloadBytes(id, { deadlineMs: 3_000 })).rejects.toBeDefined();
  }
  expect([...home.errors, ...other.errors]).toEqual([]);
});

test('a cluster with a secret moves files, and tells strangers nothing', async () => {
  const secret = 'sixteen bytes and more';
  const { home, client, ids } = await withMoved(1, { secret });
  expect(await client.downloadBytes(ids[0]!)).toEqual(content(0));
  const stranger = await RawClient.open(home.storage.port);
  expect((await stranger.ask(migrationRoom, 0)).status).toBe(Status.accessDenied);
});

test('what moved to a metadata server stays there: no copy leads to a copy', async () => {
  const otherTiers = { ...LEAVING, moveTo: 'group1' };
  const { other, client, ids } = await withMoved(2, { otherTiers });
  await until(() => other.storage.migrationStatus()!.moves.moved >= 2);
  expect(other.storage.migrationStatus()).toMatchObject({
    rows: { files: 0 },
    remote: { files: 0 },
  });
  expect(await client.downloadBytes(ids[1]!)).toEqual(content(1));
});

/** So slow a disk is overloaded by a few requests. */
const SLOW = {
  ...LEAVING,
  parameters: {},
  moveTo: undefined,
  bytesPerSecond: 1000,
  accessBytes: 10,
  readAccessBytes: 10,
  smallFileShare: 0.05,
  intervalMs: 100,
  maxWaitMs: 60_000,
};

test('load goes to a metadata server that has room, and what is read there passes the limit here', async () => {
  const { port: tracker, close } = await startTracker({ port: 0 });
  onTestFinished(close);
  const idle = { ...LEAVING, parameters: {}, moveTo: undefined };
  const others = [
    await nodeOf(tracker, 'group2', { tiers: idle }),
    // It knows no such question, as a C storage.
    await nodeOf(tracker, 'group3'),
  ];
  const tiers = { ...SLOW, smallFileShare: 1, shareWith: ['group3', 'group2'] };
  const home = await nodeOf(tracker, 'group1', { tiers });
  const client = new FastdfsClient({ trackers: [`127.0.0.1:${tracker}`] });
  onTestFinished(() => client.close());
  const ids: string[] = [];
  for (let n = 0; n < 8; n += 1) ids.push(await client.upload(content(n), { group: 'group1' }));
  let isEnded = false;
  const describing = (async () => {
    for (let n = 0; !isEnded; n += 1) await client.setMetadata(ids[n % 8]!, { n: 'x' });
  })();
  let reads = 0;
  const readers = ids.map(async (id, n) => {
    while (!isEnded) {
      expect(await client.downloadBytes(id)).toEqual(content(n));
      reads += 1;
    }
  });
  await until(() => home.storage.migrationStatus()!.remote.files === 8);
  // Of those that its disk reads it answers twenty in a second. None of these takes its turn there.
  const ofSmallFiles = () => home.storage.migrationStatus()!.load.smallFile;
  await until(() => ofSmallFiles().servedRequests === 0);
  const before = reads;
  await until(() => reads >= before + 400);
  expect(ofSmallFiles()).toMatchObject({ servedRequests: 0, waitingRequests: 0 });
  isEnded = true;
  await Promise.all([describing, ...readers]);
  expect(others[0]!.storage.migrationStatus()!.rows.files).toBe(8);
  expect(home.errors).toEqual([]);
});
