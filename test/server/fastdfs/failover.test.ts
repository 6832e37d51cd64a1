import { buffer } from 'node:stream/consumers';
import type { FastdfsClient } from '@stevedore/fastdfs';
import {
  activeTest,
  appendFile,
  downloadFile,
  getMetadata,
  queryFetch,
  queryFileInfo,
  regenerateAppender,
  uploadFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import {
  fin,
  refuse,
  reset,
  silence,
  stall,
  type TestCluster,
} from '../../support/cluster/index.js';
import { Chunks, failure, until } from '../../support/fastdfs.js';
import { HELLO } from '../../support/good-server.js';
import { clusterSetup } from '../../support/test-cluster.js';

const READS: Readonly<Record<string, (client: FastdfsClient, id: string) => Promise<unknown>>> = {
  downloadBytes: (client, id) => client.downloadBytes(id),
  download: async (client, id) => buffer((await client.download(id)).stream),
  info: async (client, id) => (await client.info(id)).size,
  getMetadata: (client, id) => client.getMetadata(id),
};
const READ_COMMANDS = [downloadFile.code, queryFileInfo.code, getMetadata.code] as const;

/** The storage whose address, 127.0.0.1 or the next, the file bears. */
function sourceOf(cluster: TestCluster, client: FastdfsClient, id: string) {
  const index = Number(client.describe(id).source.split('.').at(-1)) - 1;
  return cluster.storages[index]!;
}

describe('a read', () => {
  type Harm = (cluster: TestCluster, source: TestCluster['storages'][number]) => unknown;
  const misbehaving =
    (how: typeof stall): Harm =>
    ({ storages }, source) => {
      for (const bad of [storages[0]!, source]) {
        for (const command of READ_COMMANDS) bad.misbehave(command, how);
      }
    };

  it.each<[string, Harm]>([
    ['stalls', misbehaving(stall)],
    ['resets', misbehaving(reset)],
    ['closes', misbehaving(fin)],
    ['is dead', (_, source) => source.close()],
  ])('goes to the next storage when one %s', async (_, harm) => {
    const tried = Object.entries(READS).map(async ([name, read]) => {
      const { cluster, client } = await clusterSetup({}, { storages: 3 });
      const id = await client.upload(HELLO);
      await client.setMetadata(id, { a: 'b' });
      const expected = await read(client, id);
      await harm(cluster, sourceOf(cluster, client, id));
      for (let round = 0; round < 4; round++) {
        expect(await read(client, id), name).toEqual(expected);
      }
    });
    await Promise.all(tried);
  });

  it('that got a part of the bytes starts anew elsewhere, if none was handed out', async () => {
    const { cluster, client } = await clusterSetup({}, { storages: 2 });
    const id = await client.upload(HELLO);
    for (const command of [downloadFile.code]) {
      cluster.storages[0]!.misbehave(command, ({ socket }, good) =>
        socket.end(good.subarray(0, 15)),
      );
    }
    for (let round = 0; round < 3; round++) {
      expect(await client.downloadBytes(id)).toEqual(HELLO);
    }
  });

  it('whose bytes were handed out is not repeated', async () => {
    const { cluster, client } = await clusterSetup({}, { storages: 2 });
    const id = await client.upload(HELLO);
    for (const storage of cluster.storages) {
      storage.misbehave(downloadFile.code, ({ socket }, good) => socket.end(good.subarray(0, 15)));
    }
    const { stream } = await client.download(id);
    expect((await failure(buffer(stream))).code).toBe('connection_lost');
    const asked = cluster.storages.map((each) => each.count(downloadFile.code));
    expect(asked[0]! + asked[1]!).toBe(1);
  });

  it('fails with what happened last when no storage is left', async () => {
    const { cluster, client } = await clusterSetup({}, { storages: 2 });
    const id = await client.upload(HELLO);
    for (const storage of cluster.storages) await storage.close();
    const error = await failure(client.downloadBytes(id));
    expect(error).toMatchObject({ code: 'connect_failed', fileId: id, retryable: true });
  });

  it('asks the source when a copy is not there yet', async () => {
    const { cluster, client } = await clusterSetup({}, { storages: 3 });
    const id = await client.upload(HELLO);
    const source = sourceOf(cluster, client, id);
    for (const storage of cluster.storages) {
      if (storage === source) continue;
      for (const command of READ_COMMANDS) storage.misbehave(command, refuse(2));
    }
    for (let round = 0; round < 3; round++) {
      expect(await client.downloadBytes(id)).toEqual(HELLO);
      expect(await buffer((await client.download(id)).stream)).toEqual(HELLO);
      expect((await client.info(id)).size).toBe(13);
    }
  });

  it('asks every other storage when a copy is not there yet and the source is gone', async () => {
    const { cluster, client } = await clusterSetup({}, { storages: 4 });
    const id = await client.upload(HELLO);
    const source = sourceOf(cluster, client, id);
    const copies = cluster.storages.filter((storage) => storage !== source);
    const without = copies.slice(1);
    for (const storage of without) {
      for (const command of READ_COMMANDS) storage.misbehave(command, refuse(2));
    }
    await source.close();
    for (let round = 0; round < 4; round++) {
      expect(await client.downloadBytes(id)).toEqual(HELLO);
      expect((await client.info(id)).size).toBe(13);
    }
  });

  it('of a missing file is not_found after the source said so', async () => {
    const { client } = await clusterSetup({}, { storages: 3 });
    const id = await client.upload(HELLO);
    await client.delete(id);
    for (let round = 0; round < 3; round++) {
      expect((await failure(client.downloadBytes(id))).code).toBe('not_found');
    }
  });

  it('is not told not_found while the source is out of reach', async () => {
    const { cluster, client } = await clusterSetup({}, { storages: 2 });
    const id = await client.upload(HELLO);
    const source = sourceOf(cluster, client, id);
    const copy = cluster.storages.find((each) => each !== source)!;
    copy.misbehave(downloadFile.code, refuse(2));
    await source.close();
    for (let round = 0; round < 2; round++) {
      expect((await failure(client.downloadBytes(id))).retryable).toBe(true);
    }
  });

  it.each(['downloadBytes', 'info'])(
    '(%s) is not told not_found while no tracker says who else may have the file',
    async (name) => {
      const { cluster, client } = await clusterSetup({}, { storages: 2 });
      const id = await client.upload(HELLO);
      const lacking = refuse(2);
      for (const command of READ_COMMANDS) {
        for (const storage of cluster.storages) {
          storage.misbehave(command, async (received, good) => {
            await cluster.tracker.close();
            await lacking(received, good);
          });
        }
      }
      expect((await failure(READS[name]!(client, id))).code).toBe('no_tracker');
    },
  );

  it('never connects to an address that only the file id names', async () => {
    const { cluster, client } = await clusterSetup();
    const stranger = 'group1/M00/00/00/fwARA2sAsIGAejQlAAAADcRYHyQ645.txt';
    expect((await failure(client.downloadBytes(stranger))).address).toBe(
      cluster.storages[0]!.address,
    );
  });
});

describe('an upload', () => {
  it('goes elsewhere when the storage cannot be reached, whatever the body', async () => {
    const { cluster, client, orphans } = await clusterSetup({}, { storages: 2 });
    await cluster.storages[0]!.close();
    for (let round = 0; round < 4; round++) {
      const body = new Chunks([HELLO]);
      await client.upload(body, { size: 13, group: 'group1' });
      await client.uploadAppender(HELLO);
    }
    expect(await cluster.names()).toHaveLength(8);
    expect(orphans).toEqual([]);
  });

  it.each([
    ['stalls', stall],
    ['resets', reset],
    ['closes', fin],
  ])(
    'of an array is repeated elsewhere when the storage %s, and the orphan told',
    async (_, how) => {
      const { cluster, client, orphans } = await clusterSetup({}, { storages: 2 });
      const [bad, good] = cluster.storages;
      bad!.misbehave(uploadFile.code, how);
      const ids = [await client.upload(HELLO), await client.upload(HELLO)];
      expect(new Set(ids).size).toBe(2);
      expect(good!.count(uploadFile.code)).toBe(2);
      expect(orphans).toEqual([
        expect.objectContaining({
          operation: 'upload',
          address: bad!.address,
          size: 13,
          fileId: undefined,
        }),
      ]);
      expect(orphans[0]!.error).toMatchObject({ address: bad!.address });
    },
  );

  it('that may be stored is told even if nothing else can be tried', async () => {
    const { cluster, client, orphans } = await clusterSetup();
    cluster.storages[0]!.misbehave(uploadFile.code, reset);
    const error = await failure(client.upload(HELLO));
    expect(error.code).toBe('connection_lost');
    expect(orphans).toMatchObject([{ operation: 'upload', error }]);
  });

  it('of an iterable is not repeated once it was touched', async () => {
    const { cluster, client, orphans } = await clusterSetup({}, { storages: 2 });
    for (const storage of cluster.storages) storage.misbehave(uploadFile.code, reset);
    const body = new Chunks([HELLO]);
    expect((await failure(client.upload(body, { size: 13 }))).code).toBe('connection_lost');
    const asked = cluster.storages.map((each) => each.count(uploadFile.code));
    expect(asked[0]! + asked[1]!).toBe(1);
    expect(orphans.length).toBe(1);
  });

  it('is not repeated when a part of the reply came, or one that says nothing', async () => {
    const { cluster, client, orphans } = await clusterSetup({}, { storages: 2 });
    for (const storage of cluster.storages) {
      storage.misbehave(uploadFile.code, ({ socket }, good) => socket.end(good.subarray(0, 1)));
    }
    expect((await failure(client.upload(HELLO))).code).toBe('connection_lost');
    for (const storage of cluster.storages) {
      storage.misbehave(uploadFile.code, refuse(0));
    }
    expect((await failure(client.upload(HELLO))).code).toBe('bad_reply');
    const asked = cluster.storages.map((each) => each.count(uploadFile.code));
    expect(asked[0]! + asked[1]!).toBe(2);
    expect(orphans.length).toBe(2);
  });

  it('that is aborted while its reply is awaited may be stored', async () => {
    const { cluster, client, orphans } = await clusterSetup();
    cluster.storages[0]!.misbehave(uploadFile.code, silence);
    const controller = new AbortController();
    const call = failure(client.upload(HELLO, { signal: controller.signal }));
    await until(() => cluster.storages[0]!.count(uploadFile.code) === 1);
    controller.abort();
    expect((await call).code).toBe('aborted');
    expect(orphans.length).toBe(1);
  });

  it('that the storage refuses leaves no orphan', async () => {
    const { cluster, client, orphans } = await clusterSetup();
    cluster.storages[0]!.misbehave(uploadFile.code, refuse(28));
    expect((await failure(client.upload(HELLO))).code).toBe('no_space');
    expect(orphans).toEqual([]);
  });

  it('is not disturbed by a listener that throws', async () => {
    const { cluster, client } = await clusterSetup({}, { storages: 2 });
    cluster.storages[0]!.misbehave(uploadFile.code, reset);
    cluster.storages[1]!.misbehave(uploadFile.code, reset);
    const own = new Error('listener');
    client.on('possibleOrphan', () => {
      throw own;
    });
    const seen: unknown[] = [];
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => seen.push(error));
    expect((await failure(client.upload(HELLO))).code).toBe('connection_lost');
    await until(() => seen.length === 2);
    process.removeAllListeners('uncaughtException');
    for (const listener of others) process.on('uncaughtException', listener);
    expect(seen).toEqual([own, own]);
  });
});

describe('what must not happen twice', () => {
  it.each(['append', 'uploadSlave', 'regenerate'] as const)(
    'is sent once, over a tested connection: %s',
    async (what) => {
      const { cluster, client } = await clusterSetup({ maxConnectionsPerAddress: 1 });
      const storage = cluster.storages[0]!;
      const id = await client.uploadAppender(HELLO);
      const [command, call] = {
        append: [appendFile.code, () => client.append(id, HELLO)] as const,
        uploadSlave: [uploadSlaveFile.code, () => client.uploadSlave(id, '_a', HELLO)] as const,
        regenerate: [regenerateAppender.code, () => client.regenerate(id)] as const,
      }[what];
      storage.misbehave(command, reset);
      expect((await failure(call())).code).toBe('connection_lost');
      expect([storage.count(command), storage.count(activeTest.code)]).toEqual([1, 1]);
      storage.behave();
      // A connection that died in the pool is found out by the test, at no cost.
      await client.upload(HELLO);
      const before = storage.count(command);
      storage.misbehave(activeTest.code, reset);
      await call().catch((error) => expect(error).toMatchObject({ status: expect.any(Number) }));
      expect(storage.count(command)).toBe(before + 1);
    },
  );

  it('names the file that a lost slave upload would have', async () => {
    const { cluster, client, orphans } = await clusterSetup();
    const id = await client.upload(HELLO, { extension: 'txt' });
    cluster.storages[0]!.misbehave(uploadSlaveFile.code, reset);
    await failure(client.uploadSlave(id, '_a', HELLO));
    expect(orphans).toMatchObject([{ fileId: `${id.slice(0, -4)}_a.txt`, size: 13 }]);
  });
});

describe('a server that says EAGAIN', () => {
  it.each([
    ['upload', uploadFile.code],
    ['downloadBytes', downloadFile.code],
    ['tracker', queryFetch.code],
  ] as const)('is asked again: %s', async (what, command) => {
    const { cluster, client } = await clusterSetup();
    const node = what === 'tracker' ? cluster.tracker : cluster.storages[0]!;
    const id = await client.upload(HELLO);
    let left = 2;
    node.misbehave(command, (received, good) => {
      if (left-- > 0) refuse(11)(received, good);
      else received.socket.write(good);
    });
    if (what === 'upload') await client.upload(HELLO);
    else expect(await client.downloadBytes(id)).toEqual(HELLO);
  });

  it('is asked again only so often, and only while the deadline allows it', async () => {
    const { cluster, client } = await clusterSetup({ busyRetries: 2 });
    const storage = cluster.storages[0]!;
    storage.misbehave(uploadFile.code, refuse(11));
    expect(await failure(client.upload(HELLO))).toMatchObject({ code: 'busy', errno: 11 });
    expect(storage.count(uploadFile.code)).toBe(3);
    const now = performance.now.bind(performance);
    let passedMs = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + passedMs);
    onTestFinished(() => clock.mockRestore());
    storage.misbehave(uploadFile.code, (received, good) => {
      passedMs = 59_950;
      refuse(11)(received, good);
    });
    const error = await failure(client.upload(HELLO, { deadlineMs: 60_000 }));
    expect(error.code).toBe('busy');
    expect(storage.count(uploadFile.code)).toBe(4);
  });

  it('ends the wait when the call is aborted', async () => {
    const { cluster, client } = await clusterSetup({ busyRetries: 20 });
    cluster.storages[0]!.misbehave(uploadFile.code, refuse(11));
    const signal = AbortSignal.timeout(150);
    expect((await failure(client.upload(HELLO, { signal }))).code).toBe('aborted');
  });

  it('is not asked again when the body is gone', async () => {
    const { cluster, client } = await clusterSetup();
    const storage = cluster.storages[0]!;
    storage.misbehave(uploadFile.code, refuse(11));
    const body = new Chunks([HELLO]);
    expect((await failure(client.upload(body, { size: 13 }))).code).toBe('busy');
    expect(storage.count(uploadFile.code)).toBe(1);
  });
});
