import {
  decodeListingLine,
  downloadFile,
  encodeHeader,
  encodeListingLine,
  fetchOnePathBinlog,
  OPEN_BODY_BYTES,
  ProtocolError,
} from '@stevedore/protocol';
import { describe, expect, test } from 'vitest';
import { fin, refuse, type TestCluster } from '../../support/cluster/index.js';
import { failure } from '../../support/fastdfs.js';
import { clusterSetup } from '../../support/test-cluster.js';

const LIST = fetchOnePathBinlog.code;

function storageOf(cluster: TestCluster, index = 0) {
  const [address = '', port] = cluster.storages[index]!.address.split(':');
  return { group: 'group1', address, port: Number(port) };
}

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

/** A reply as stock storages send it, with another text or another number behind it. */
function listing(text: string, bytes = text.length): Buffer {
  const end = Buffer.alloc(8);
  end.writeBigInt64BE(BigInt(bytes));
  const head = encodeHeader({ bodyBytes: OPEN_BODY_BYTES, command: 100, status: 0 });
  return Buffer.concat([head, Buffer.from(text), end]);
}

describe('the list of a storage', () => {
  test('names the files that are there, and no others', async () => {
    const { client, cluster } = await clusterSetup();
    const ids = [];
    for (const text of ['a', 'bb', 'ccc']) ids.push(await client.upload(Buffer.from(text)));
    const gone = await client.upload(Buffer.from('gone'));
    await client.delete(gone);
    const files = await collect(client.listFiles(storageOf(cluster)));
    expect(files.map(({ fileId }) => fileId)).toEqual(ids);
    expect(files[0]).toMatchObject({ isSource: true });
    expect(Math.abs(files[0]!.changedAt.getTime() - Date.now())).toBeLessThan(60_000);
    expect(client.stats().leased).toBe(0);
  });

  test('of many files is read as it comes, and can be left at any time', async () => {
    const { client, cluster } = await clusterSetup();
    const line = '1700000000 C M00/00/00/fwARA2sBJI-EN37eAAAAADYQpoY670.log\n';
    cluster.storages[0]!.misbehave(LIST, ({ socket }) => {
      socket.end(listing(line.repeat(200_000)));
    });
    let count = 0;
    for await (const _ of client.listFiles(storageOf(cluster))) count += 1;
    expect(count).toBe(200_000);
    for await (const _ of client.listFiles(storageOf(cluster))) break;
    expect(client.stats().leased).toBe(0);
    await client.ping();
  });

  test('comes whole however it is cut', async () => {
    const { client, cluster } = await clusterSetup();
    await client.upload(Buffer.from('a'));
    await client.upload(Buffer.from('b'));
    cluster.storages[0]!.misbehave(LIST, async ({ socket }, good) => {
      for (const byte of good) {
        socket.write(Buffer.of(byte));
        await new Promise((resolve) => setImmediate(resolve));
      }
      socket.end();
    });
    expect(await collect(client.listFiles(storageOf(cluster)))).toHaveLength(2);
  });

  test.each([
    ['is cut short', listing('1 C M00/00/00/a\n').subarray(0, -12)],
    ['has lost its end', listing('1 C M00/00/00/a\n').subarray(0, -8)],
    ['has another number behind it', listing('1 C M00/00/00/a\n', 17)],
    ['has a line that is none', listing('1 X M00/00/00/a\n')],
    ['has a line without an end', listing('1'.repeat(5000))],
  ])('that %s is an error, not a short list', async (_name, bytes) => {
    const { client, cluster } = await clusterSetup();
    cluster.storages[0]!.misbehave(LIST, ({ socket }) => void socket.end(bytes));
    const error = await failure(collect(client.listFiles(storageOf(cluster))));
    expect(['bad_reply', 'connection_lost']).toContain(error.code);
    expect(client.stats().leased).toBe(0);
  });

  test('a storage that refuses, closes or hangs is an error', async () => {
    const { client, cluster } = await clusterSetup();
    const [storage] = cluster.storages;
    const list = (options = {}) => failure(collect(client.listFiles(storageOf(cluster), options)));
    storage!.misbehave(LIST, refuse(22));
    expect((await list()).status).toBe(22);
    storage!.misbehave(LIST, fin);
    expect((await list()).code).toBe('connection_lost');
    storage!.misbehave(LIST, ({ socket }, good) => void socket.write(good));
    expect((await list({ deadlineMs: 50 })).code).toBe('timeout');
    storage!.behave();
    expect((await list({ storePathIndex: 3 })).status).toBe(22);
    expect((await list({ storePathIndex: 256 })).code).toBe('invalid_argument');
    await client.close();
    expect((await list()).code).toBe('closed');
  });

  test('the lines go both ways, links and files of peers included', () => {
    const lines = [
      { seconds: 1_700_000_000, isSource: true, name: 'M00/00/01/a.merged' },
      { seconds: 1, isSource: false, name: 'M00/00/01/a', linkTo: 'M01/00/02/b' },
    ];
    for (const line of lines) {
      const text = encodeListingLine(line);
      expect(text.endsWith('\n')).toBe(true);
      expect(decodeListingLine(text.slice(0, -1))).toEqual(line);
    }
    for (const bad of ['', '1 C', 'x C a', '1 D a', '1 C a b', '1 L a', '1 C a ']) {
      expect(() => decodeListingLine(bad)).toThrow(ProtocolError);
    }
  });
});

test('a read from one storage asks that one and no other', async () => {
  const { client, cluster } = await clusterSetup({}, { storages: 3 });
  const id = await client.upload(Buffer.from('hello'));
  const [, second] = cluster.storages;
  const storage = storageOf(cluster, 1);
  const before = second!.count(downloadFile.code);
  for (let turn = 0; turn < 3; turn++) {
    expect(String(await client.downloadBytes(id, { storage }))).toBe('hello');
    expect((await client.info(id, { storage })).size).toBe(5);
  }
  expect(second!.count(downloadFile.code)).toBe(before + 3);
  second!.misbehave(downloadFile.code, refuse(2));
  expect((await failure(client.downloadBytes(id, { storage }))).code).toBe('not_found');
  const nowhere = { address: 'not an address', port: 1 };
  expect((await failure(client.info(id, { storage: nowhere }))).code).toBe('invalid_argument');
});
