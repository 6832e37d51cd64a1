import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import {
  downloadFile,
  listAllGroups,
  listStorage,
  ProtocolError,
  StorageStatus,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { type Answer, replyFrame } from '../../support/cluster/index.js';
import { failure } from '../../support/fastdfs.js';
import { TEST } from '../../support/paths.js';
import { clusterSetup } from '../../support/test-cluster.js';

/** What servers before 6.15 do otherwise, as real ones of these versions did it. */

interface Recorded {
  readonly groups: string;
  readonly storages: string;
}

const { replies } = JSON.parse(
  readFileSync(join(TEST, 'vectors/earlier-servers.json'), 'utf8'),
) as { readonly replies: Readonly<Record<string, Recorded>> };

const RECORDED = [
  { version: '6.06', ip: '127.0.18.21', groupBytes: 105, storageBytes: 612 },
  // Five characters and a NUL are what its version field holds.
  { version: '6.11.0', cut: '6.11.', ip: '127.0.18.22', groupBytes: 105, storageBytes: 642 },
  { version: '6.12.4', ip: '127.0.18.23', groupBytes: 105, storageBytes: 644 },
  { version: '6.13.0', ip: '127.0.18.24', groupBytes: 105, storageBytes: 509 },
];

describe.each(RECORDED)('the lists of a tracker of $version', (server) => {
  const { groups, storages } = replies[server.version]!;

  it('tell of its group', () => {
    const body = Buffer.from(groups, 'hex');
    expect(body.length).toBe(server.groupBytes);
    expect(listAllGroups.reply.decode(body)).toEqual([
      {
        name: 'group1',
        totalMegabytes: 258_019,
        freeMegabytes: expect.any(Number),
        reservedMegabytes: 0,
        trunkFreeMegabytes: 0,
        storageCount: 1,
        storagePort: 23_000,
        readableCount: 1,
        writableCount: 1,
        currentWriteServer: 0,
        storePathCount: 1,
        subdirectoriesPerPath: 4,
        currentTrunkFileId: expect.any(Number),
      },
    ]);
  });

  it('tell of its storage', () => {
    const body = Buffer.from(storages, 'hex');
    expect(body.length).toBe(server.storageBytes);
    expect(listStorage.reply.decode(body)).toMatchObject([
      {
        status: StorageStatus.active,
        readWriteMode: 6,
        id: server.ip,
        address: server.ip,
        sourceId: '',
        version: server.cut ?? server.version,
        totalMegabytes: 258_019,
        reservedMegabytes: 0,
        uploadPriority: 10,
        storePathCount: 1,
        subdirectoriesPerPath: 4,
        currentWritePath: 0,
        storagePort: 23_000,
        statistics: { connections: { max: expect.any(Number) } },
        isTrunkServer: false,
      },
    ]);
  });

  it('of several are read, and cut ones refused', () => {
    const group = Buffer.from(groups, 'hex');
    const storage = Buffer.from(storages, 'hex');
    const two = listAllGroups.reply.decode(Buffer.concat([group, group]));
    expect(two.map(({ name }) => name)).toEqual(['group1', 'group1']);
    const three = listStorage.reply.decode(Buffer.concat([storage, storage, storage]));
    expect(three.map(({ version }) => version)).toEqual(
      Array(3).fill(server.cut ?? server.version),
    );
    for (const less of [1, 8]) {
      expect(() => listAllGroups.reply.decode(group.subarray(less))).toThrow(ProtocolError);
      expect(() => listStorage.reply.decode(storage.subarray(less))).toThrow(ProtocolError);
    }
  });
});

/** Before 6.15.4: 22 for a range that ends behind the file. */
function refusesLongRanges(size: number): Answer {
  return ({ body, socket }, good) => {
    const end = body.readBigInt64BE(0) + body.readBigInt64BE(8);
    socket.write(end > BigInt(size) ? replyFrame(22) : good);
  };
}

it('a storage that refuses ranges behind the end is asked for what there is of them', async () => {
  const { cluster, client } = await clusterSetup();
  const bytes = Buffer.from('thirteen byte');
  for (const id of [await client.upload(bytes), await client.uploadAppender(bytes)]) {
    cluster.storages[0]!.misbehave(downloadFile.code, refusesLongRanges(bytes.length));
    for (const range of [
      { offset: 12, length: 500 },
      { offset: 0, length: 14 },
      { offset: 3, length: 10 },
      { offset: 3 },
    ]) {
      const { offset, length = 13 } = range;
      const expected = bytes.subarray(offset, offset + length);
      expect(await client.downloadBytes(id, range)).toEqual(expected);
      const { size, stream } = await client.download(id, range);
      expect(size).toBe(expected.length);
      expect(await buffer(stream)).toEqual(expected);
    }
    const behind = client.downloadBytes(id, { offset: 13, length: 1 });
    expect(await failure(behind)).toMatchObject({ code: 'server_status', status: 22 });
    cluster.behave();
  }
});

it('a storage that never answers when a range begins behind the end is asked for the end', async () => {
  const { cluster, client } = await clusterSetup({ idleTimeoutMs: 5_000 });
  const bytes = Buffer.from('thirteen byte');
  const id = await client.upload(bytes);
  cluster.storages[0]!.misbehave(downloadFile.code, ({ body, socket }) => {
    const offset = body.readBigInt64BE(0);
    if (offset <= 13n) socket.write(replyFrame(0, bytes.subarray(Number(offset))));
  });
  for (const offset of [13, 14, 2 ** 40]) {
    expect(await client.downloadBytes(id, { offset })).toEqual(Buffer.alloc(0));
    expect((await client.download(id, { offset, length: 5 })).size).toBe(0);
  }
  expect(await client.downloadBytes(id, { offset: 3 })).toEqual(bytes.subarray(3));
});

it('a storage that takes the rest of a refused body for requests is understood, and its connection is not used again', async () => {
  const { cluster, client } = await clusterSetup();
  const master = await client.upload(Buffer.from('master'));
  const storage = cluster.storages[0]!;
  storage.misbehave(uploadSlaveFile.code, ({ socket }) => {
    socket.write(Buffer.concat([replyFrame(2), replyFrame(22), replyFrame(22)]));
  });
  const slave = client.uploadSlave(master, '-small', Buffer.alloc(100));
  expect(await failure(slave)).toMatchObject({ code: 'not_found', status: 2 });
  cluster.behave();
  expect(await client.downloadBytes(master)).toEqual(Buffer.from('master'));
  expect(client.stats()).toMatchObject({ leased: 0 });
});
