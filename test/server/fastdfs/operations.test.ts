import { crc32 } from 'node:zlib';
import { FastdfsClient, type FetchTarget } from '@stevedore/fastdfs';
import {
  appendFile,
  listAllGroups,
  modifyFile,
  truncateFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { afterAll, describe, expect, it } from 'vitest';
import { type Received, replyFrame } from '../../support/cluster/index.js';
import { clientOf, failure, goodServer } from '../../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../../support/good-server.js';
import { clusterSetup } from '../../support/test-cluster.js';
import { fileIdVectors, frameVector, frameVectors } from '../../support/vectors.js';

const NO_SUCH_ID = HELLO_ID.replace('fwARA2s', 'fwARA3s');

describe('a change that changes nothing', () => {
  /** Stock storages send the body of the request back with status 0. */
  const echo = ({ socket, body }: Received): void => void socket.write(replyFrame(0, body));
  const changes = {
    append: [appendFile.code, Buffer.alloc(0)],
    modify: [modifyFile.code, Buffer.alloc(0)],
  } as const;

  it.each(['append', 'modify'] as const)('is success although the %s is echoed', async (what) => {
    const { client, cluster } = await clusterSetup({ maxConnectionsPerAddress: 1 });
    const id = await client.uploadAppender(HELLO);
    const [command, body] = changes[what];
    cluster.storages[0]!.misbehave(command, echo);
    if (what === 'append') await client.append(id, body);
    else await client.modify(id, 13, body);
    expect(await client.downloadBytes(id)).toEqual(HELLO);
    expect(cluster.storages[0]!.accepted).toBe(1);
  });

  it('is success although the truncate is echoed', async () => {
    const { client, cluster } = await clusterSetup();
    const id = await client.uploadAppender(HELLO);
    cluster.storages[0]!.misbehave(truncateFile.code, echo);
    await client.truncate(id, HELLO.length);
    expect(cluster.storages[0]!.accepted).toBe(1);
  });

  it('is what an echo is taken for, and nothing else', async () => {
    const { client, cluster } = await clusterSetup();
    const id = await client.uploadAppender(HELLO);
    cluster.storages[0]!.misbehave(appendFile.code, echo);
    expect((await failure(client.append(id, HELLO))).code).toBe('bad_reply');
    cluster.storages[0]!.misbehave(appendFile.code, ({ socket }) =>
      socket.write(replyFrame(0, Buffer.alloc(3))),
    );
    expect((await failure(client.append(id, Buffer.alloc(0)))).code).toBe('bad_reply');
  });
});

describe('slave files', () => {
  it('lie beside their master', async () => {
    const { client } = await clusterSetup();
    const master = await client.upload(HELLO, { extension: 'jpg' });
    const stem = master.slice(0, -4);
    expect(await client.uploadSlave(master, '_small', Buffer.from('s'))).toBe(`${stem}_small.jpg`);
    const slave = await client.uploadSlave(master, '-150x150', HELLO, { extension: 'png' });
    expect(slave).toBe(`${stem}-150x150.png`);
    expect(await client.downloadBytes(slave)).toEqual(HELLO);
    expect(client.describe(slave)).toMatchObject({ kind: 'slave', size: undefined });
  });

  it('need a master and a prefix that can be', async () => {
    const { client, cluster } = await clusterSetup();
    const code = uploadSlaveFile.code;
    expect((await failure(client.uploadSlave(NO_SUCH_ID, '_a', HELLO))).code).toBe('not_found');
    const asked = cluster.storages[0]!.count(code);
    for (const prefix of ['', 'a/b', 'x'.repeat(17)]) {
      expect((await failure(client.uploadSlave(HELLO_ID, prefix, HELLO))).code).toBe(
        'invalid_argument',
      );
    }
    const bare = HELLO_ID.replace('645.txt', '6451234');
    expect((await failure(client.uploadSlave(bare, '-m', HELLO))).code).toBe('invalid_argument');
    expect(cluster.storages[0]!.count(code)).toBe(asked);
  });
});

describe('metadata', () => {
  it('of no file is not_found, though storages answer 2 for a file without any as well', async () => {
    const { client } = await clusterSetup();
    expect(await failure(client.getMetadata(NO_SUCH_ID))).toMatchObject({
      code: 'not_found',
      operation: 'getMetadata',
      fileId: NO_SUCH_ID,
    });
    expect((await failure(client.setMetadata(NO_SUCH_ID, { a: 'b' }))).code).toBe('not_found');
  });

  it('that the format cannot hold is refused, and never cut', async () => {
    const { client } = await clusterSetup();
    for (const values of [
      { ['k'.repeat(65)]: 'v' },
      { k: 'ü'.repeat(129) },
      { k: 'a\x01b' },
      { 'k\x02': 'v' },
      { '': 'v' },
      { k: 5 as unknown as string },
      null as unknown as Record<string, string>,
    ]) {
      const error = await failure(client.setMetadata(HELLO_ID, values));
      expect(error.code).toBe('invalid_argument');
    }
    const mode = 'add' as unknown as 'merge';
    expect((await failure(client.setMetadata(HELLO_ID, {}, { mode }))).code).toBe(
      'invalid_argument',
    );
  });
});

it('info has the computed CRC-32 of an appender unless it is not wanted', async () => {
  const { client } = await clusterSetup();
  const id = await client.uploadAppender(HELLO);
  expect(await client.info(id)).toMatchObject({ size: 13, crc32: crc32(HELLO) });
  expect(await client.info(id, { computeCrc: false })).toMatchObject({ size: 13, crc32: 0 });
});

describe('describe', () => {
  const client = new FastdfsClient({ trackers: ['127.0.0.1:1'] });
  afterAll(() => client.close());

  it.each(fileIdVectors().map((vector) => [vector.file_id, vector] as const))(
    'tells of %s what its name holds',
    (id, { kind, decoded }) => {
      const told = client.describe(id);
      expect(told).toMatchObject({
        group: decoded.group,
        name: decoded.remote_filename,
        source: decoded.source_ip ?? String(decoded.source_id),
        createdAt: new Date(decoded.create_timestamp * 1000),
        storePathIndex: decoded.store_path_index,
      });
      if (kind === 'normal' || kind === 'trunk' || kind === 'regenerated') {
        expect([told.size, told.crc32]).toEqual([decoded.size_in_name, decoded.crc32]);
      }
      if (kind === 'appender') expect([told.size, told.crc32]).toEqual([undefined, undefined]);
    },
  );

  it('refuses what is no id', () => {
    expect(() => client.describe('group1/M00/x')).toThrow(/not a file id/);
  });
});

describe('the cluster', () => {
  it('lists its groups and storages', async () => {
    const { client, cluster } = await clusterSetup({}, { storages: 2 });
    const [group] = await client.listGroups();
    expect(group).toMatchObject({ name: 'group1', storageCount: 2 });
    const storages = await client.listStorages('group1');
    expect(storages.map((each) => `${each.address}:${each.storagePort}`)).toEqual(
      cluster.storages.map((each) => each.address),
    );
    expect((await failure(client.listStorages('group9'))).code).toBe('not_found');
    for (const call of [client.listStorages('no group'), client.listStorages('')]) {
      expect((await failure(call)).code).toBe('invalid_argument');
    }
  });

  it('without groups has none', async () => {
    const { client, cluster } = await clusterSetup();
    cluster.tracker.misbehave(listAllGroups.code, ({ socket }) => socket.write(replyFrame(0)));
    expect(await client.listGroups()).toEqual([]);
  });

  it('tells where a file is', async () => {
    const { client, cluster } = await clusterSetup({}, { storages: 3 });
    const id = await client.upload(HELLO);
    const addresses = cluster.storages.map((each) => each.address);
    const named = ({ address, port }: FetchTarget) => `${address}:${port}`;
    const all = await client.locateAll(id);
    expect(all.map(named).sort()).toEqual([...addresses].sort());
    expect(addresses).toContain(named(await client.locate(id)));
  });
});

describe('requests to storages are byte for byte those of the C client', () => {
  type Call = (client: FastdfsClient) => Promise<unknown>;

  /** Sends the call to a server that refuses it and gives the frame that it got. */
  async function sent(command: number, call: Call): Promise<string> {
    const server = await goodServer();
    await call(clientOf(server.address)).catch(() => {});
    return server.requests.find((each) => each.command === command)!.frame.toString('hex');
  }

  /** The C client sends metadata in the order it was given, this one sorted. */
  const SORTED = ['storage.set_metadata.overwrite', 'storage.set_metadata.merge'];
  const READS = ['upload.buff.13.txt', 'download.whole', 'download.offset_and_bytes'];
  const OTHERS = [...READS, 'query_file_info.txt', 'delete.txt'].map((op) => `storage.${op}`);
  const recorded = [
    ...frameVectors('storage-changes').filter(({ op }) => !SORTED.includes(op)),
    ...OTHERS.map((op) => frameVector('storage', op)),
  ];

  it.each(recorded.map((vector) => [vector.op, vector] as const))(
    '%s',
    async (_, { cmd, request_hex }) => {
      const body = Buffer.from(request_hex, 'hex').subarray(10);
      expect(await sent(cmd, callOf(cmd, body))).toBe(request_hex);
    },
  );

  /** The call that a recorded request came from. */
  function callOf(command: number, body: Buffer): Call {
    const i64 = (at: number): number => Number(body.readBigInt64BE(at));
    const text = (at: number, end?: number): string =>
      body.toString('latin1', at, end).replace(/\0.*$/s, '');
    const group = 'group1';
    switch (command) {
      case 24: {
        const data = 16 + i64(0);
        const id = `${group}/${text(16, data)}`;
        return (client) => client.append(id, body.subarray(data));
      }
      case 34: {
        const data = 24 + i64(0);
        const id = `${group}/${text(24, data)}`;
        return (client) => client.modify(id, i64(8), body.subarray(data));
      }
      case 36:
        return (client) => client.truncate(`${group}/${text(16)}`, i64(8));
      case 38:
        return (client) => client.regenerate(`${group}/${text(0)}`);
      case 21: {
        const data = 38 + i64(0);
        const id = `${group}/${text(38, data)}`;
        return (client) =>
          client.uploadSlave(id, text(16, 32), body.subarray(data), { extension: text(32, 38) });
      }
      case 13: {
        const at = 33 + i64(0);
        const id = `${text(17, 33)}/${text(33, at)}`;
        const values = body.toString('utf8', at);
        const pairs = values === '' ? [] : values.split('\x01').map((each) => each.split('\x02'));
        const mode = body[16] === 0x4d ? 'merge' : 'overwrite';
        return (client) => client.setMetadata(id, Object.fromEntries(pairs), { mode });
      }
      case 11:
        return (client) => client.upload(body.subarray(15), { extension: text(9, 15) });
      case 12:
        return (client) => client.delete(`${text(0, 16)}/${text(16)}`);
      case 14: {
        const id = `${text(16, 32)}/${text(32)}`;
        const range = { offset: i64(0), ...(i64(8) > 0 ? { length: i64(8) } : {}) };
        return (client) => client.downloadBytes(id, range);
      }
      case 22:
        return (client) => client.info(`${text(0, 16)}/${text(16)}`);
      case 15:
        return (client) => client.getMetadata(`${text(0, 16)}/${text(16)}`);
      case 23:
        return (client) => client.uploadAppender(body.subarray(15), { extension: text(9, 15) });
      default:
        throw new Error(`no call for command ${command}`);
    }
  }
});

it('sizes of changes are exact above 4 GiB', async () => {
  const server = await goodServer();
  for (const command of [34, 36]) {
    server.answers.set(command, ({ socket }) => socket.write(replyFrame(0)));
  }
  const client = clientOf(server.address);
  const big = 2 ** 33 + 7;
  await client.modify(HELLO_ID, big, HELLO);
  await client.truncate(HELLO_ID, big);
  for (const command of [34, 36]) {
    const { body } = server.requests.find((each) => each.command === command)!;
    expect(body.readBigInt64BE(8)).toBe(2n ** 33n + 7n);
  }
  for (const size of [-1, 1.5, 2 ** 53]) {
    expect((await failure(client.truncate(HELLO_ID, size))).code).toBe('invalid_argument');
    expect((await failure(client.modify(HELLO_ID, size, HELLO))).code).toBe('invalid_argument');
  }
});
