import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type DamageEvent, type FileStore, open } from '@stevedore/client';
import { FastdfsClient } from '@stevedore/fastdfs';
import { downloadFile } from '@stevedore/protocol';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { FaultyServer, Received, TestCluster } from '../../support/cluster/index.js';
import { temporaryFolder } from '../../support/temporary.js';
import { testCluster } from '../../support/test-cluster.js';

const MIB = 2 ** 20;
const BLOCK = 256 * 1024;

interface Opened {
  readonly store: FileStore;
  readonly cluster: TestCluster;
  readonly directory: string;
  readonly events: DamageEvent[];
}

/** A store over two storages that keeps nothing on its disk that it need not. */
async function setup(files: readonly Buffer[]): Promise<Opened & { readonly keys: string[] }> {
  const cluster = await testCluster({ storages: 2 });
  const directory = temporaryFolder();
  const nothing = { retain: 0, cacheSize: 0, scrubRate: 0, idMaxAge: 0 };
  const options = { trackers: cluster.trackers, directory, ...nothing };
  const first = await open(options);
  const keys: string[] = [];
  for (const bytes of files) keys.push((await first.put(bytes, { name: 'a.bin' })).key);
  await first.flush();
  await first.close();
  const store = await open(options);
  onTestFinished(() => store.close());
  // The newest segment stays in any case.
  await store.put('another');
  await store.flush();
  // Until then, reads come from this disk.
  await expect.poll(() => store.stats().containerBytes).toBeLessThan(1000);
  const events: DamageEvent[] = [];
  store.on('damage', (damage) => events.push(damage));
  store.on('error', () => undefined);
  return { store, cluster, directory, events, keys };
}

/** The storage sends the needle with one bit turned. */
function rot(storage: FaultyServer, needle: Buffer): void {
  storage.misbehave(downloadFile.code, ({ socket }: Received, good: Buffer) => {
    const bytes = Buffer.from(good);
    const at = bytes.indexOf(needle.subarray(20, 60));
    if (at >= 0) bytes[at - 5]! ^= 1;
    socket.write(bytes);
  });
}

const read = async (store: FileStore, id: string, range?: { start: number; end: number }) =>
  (await store.get(id)).bytes(range ? { range } : {});

describe('a small file', () => {
  test('that one storage has damaged is read from the other, and stored again', async () => {
    const bytes = randomBytes(5000);
    const { store, cluster, keys, events } = await setup([bytes]);
    const [key] = keys;
    const before = (await store.stat(key!)).fileId;
    rot(cluster.storages[0]!, bytes);
    // A read may go to either storage.
    for (let turn = 0; turn < 100 && events.length === 0; turn++) {
      expect(
        (await read(store, key!, { start: 10, end: 99 })).equals(bytes.subarray(10, 100)),
      ).toBe(true);
    }
    const storage = cluster.storages[0]!.address;
    cluster.behave();
    // Once it is stored again, the reads find the next copy damaged by the same storage.
    expect(events.length).toBeGreaterThan(0);
    for (const event of events) expect(event).toMatchObject({ key, place: 'trunk', storage });
    await expect.poll(() => store.stats().damage.repaired).toBeGreaterThan(0);
    await expect
      .poll(() => store.stats().damage)
      .toMatchObject({ found: events.length, quarantined: 0 });
    await store.flush();
    const after = (await store.stat(key!)).fileId;
    expect(after).not.toBe(before);
    expect((await read(store, before!)).equals(bytes)).toBe(true);
  });
});

describe('a large file', () => {
  const bytes = randomBytes(5 * MIB + 12_345);
  const third = bytes.subarray(2 * BLOCK);
  const ranges = [
    { start: 0, end: 0 },
    { start: BLOCK - 1, end: BLOCK },
    { start: 2 * BLOCK + 5, end: 3 * BLOCK + 7 },
    { start: bytes.length - 1, end: bytes.length - 1 },
    { start: 0, end: bytes.length - 1 },
  ];
  const expectRanges = async (store: FileStore, id: string) => {
    for (const range of ranges) {
      const part = await read(store, id, range);
      expect(part.equals(bytes.subarray(range.start, range.end + 1))).toBe(true);
    }
  };

  test('is read in parts from the storage that has them sound', async () => {
    const { store, cluster, keys, events } = await setup([bytes]);
    await expectRanges(store, keys[0]!);
    rot(cluster.storages[0]!, third);
    for (let turn = 0; turn < 2; turn++) await expectRanges(store, keys[0]!);
    expect(events.every(({ storage }) => storage === cluster.storages[0]!.address)).toBe(true);
    expect((await read(store, keys[0]!)).equals(bytes)).toBe(true);
  });

  test('that no storage has sound gives what is right and nothing else', async () => {
    const { store, cluster, keys } = await setup([bytes]);
    for (const storage of cluster.storages) rot(storage, third);
    const start = 2 * BLOCK + 100_000;
    await expect(read(store, keys[0]!, { start, end: start + 1 })).rejects.toMatchObject({
      code: 'corrupt',
    });
    const received: Buffer[] = [];
    const whole = (await store.get(keys[0]!)).stream();
    await expect(
      (async () => {
        for await (const chunk of whole) received.push(chunk as Buffer);
      })(),
    ).rejects.toMatchObject({ code: 'corrupt' });
    const sent = Buffer.concat(received);
    expect(sent.length).toBeLessThan(bytes.length);
    expect(sent.equals(bytes.subarray(0, sent.length))).toBe(true);
  });

  test('whose copy on this disk is damaged is read from FastDFS', async () => {
    const cluster = await testCluster();
    const directory = temporaryFolder();
    const store = await open({ idMaxAge: 0, trackers: cluster.trackers, directory });
    onTestFinished(() => store.close());
    const { key } = await store.put(bytes);
    await store.flush();
    const [name] = readdirSync(join(directory, 'spool'));
    const path = join(directory, 'spool', name!);
    const spooled = readFileSync(path);
    spooled[2 * BLOCK + 50]! ^= 1;
    writeFileSync(path, spooled);
    await expectRanges(store, key);
    expect(store.stats().damage.found).toBe(1);
    await expect
      .poll(() => store.stats().damage)
      .toEqual({ found: 1, repaired: 1, quarantined: 0 });
    await expectRanges(store, key);
  });

  test('of another program is checked too', async () => {
    const { store, cluster } = await setup([]);
    const client = new FastdfsClient({ trackers: cluster.trackers });
    onTestFinished(() => client.close());
    const id = await client.upload(bytes, { extension: 'bin' });
    await expectRanges(store, id);
    for (const storage of cluster.storages) rot(storage, third);
    const start = 2 * BLOCK + 5;
    await expect(read(store, id, { start, end: start })).rejects.toMatchObject({ code: 'corrupt' });
    const fresh = await client.upload(Buffer.concat([bytes, bytes]), { extension: 'bin' });
    await expect(read(store, fresh, { start: 0, end: 0 })).rejects.toMatchObject({
      code: 'corrupt',
    });
  });

  test('leaves no connection behind when nobody reads it', async () => {
    const { store, keys } = await setup([bytes]);
    const file = await store.get(keys[0]!);
    const content = await file.content({ range: { start: 5, end: 4 * MIB } });
    if (Buffer.isBuffer(content)) throw new Error('a stream was expected');
    content.destroy();
    await expect.poll(() => store.stats().connections.leased).toBe(0);
  });
});
