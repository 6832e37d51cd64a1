import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type FileStore, STORE_CHANNELS, type TrunkEvent } from '@stevedore/client';
import { CHANNELS } from '@stevedore/fastdfs';
import { expect, expectTypeOf, onTestFinished, test } from 'vitest';
import { ROOT } from '../../support/paths.js';
import { openStore } from '../../support/store.js';

const REFERENCE = readFileSync(join(ROOT, 'docs/REFERENCE.md'), 'utf8');

const opened = (): Promise<FileStore> =>
  openStore({ smallFileLimit: 512_000, retain: 0, cacheSize: '1MiB' });

interface Heard {
  readonly name: string;
  readonly message: Record<string, unknown>;
}

function listen(...names: string[]): Heard[] {
  const heard: Heard[] = [];
  for (const name of names) {
    const listener = (message: unknown) => {
      heard.push({ name, message: { ...(message as Record<string, unknown>) } });
    };
    subscribe(name, listener);
    onTestFinished(() => void unsubscribe(name, listener));
  }
  return heard;
}

test('every channel is told of what it is for, with the outcome', async () => {
  const store = await opened();
  const traced = [
    STORE_CHANNELS.put,
    STORE_CHANNELS.get,
    STORE_CHANNELS.read,
    STORE_CHANNELS.delete,
    'stevedore.merge',
    CHANNELS.connect,
    CHANNELS.request,
  ];
  const ends = listen(...traced.map((name) => `tracing:${name}:asyncEnd`));
  const errors = listen(...traced.map((name) => `tracing:${name}:error`));
  const trunks = listen(STORE_CHANNELS.trunk);
  const { key } = await store.put('hello', { name: 'a.txt', type: 'text/plain', group: 'g' });
  await store.flush();
  await (await store.get(key)).bytes();
  await store.delete(key);
  await expect(store.get(key)).rejects.toMatchObject({ code: 'not_found' });

  const of = (name: string) =>
    ends.filter((each) => each.name === `tracing:${name}:asyncEnd`).map((each) => each.message);
  expect(of(STORE_CHANNELS.put)).toMatchObject([
    { store, name: 'a.txt', group: 'g', result: { key } },
  ]);
  expect(of(STORE_CHANNELS.get)[0]).toMatchObject({ store, id: key, result: { size: 5 } });
  expect(of(STORE_CHANNELS.read)[0]).toMatchObject({ store, key, bytes: 5 });
  expect(of(STORE_CHANNELS.delete)).toMatchObject([{ store, key }]);
  expect(of('stevedore.merge')).toMatchObject([{ kind: 'trunk', files: 1 }]);
  expect(of(CHANNELS.request).map(({ operation }) => operation)).toEqual(
    expect.arrayContaining(['upload']),
  );
  expect(of(CHANNELS.request)[0]).toMatchObject({ address: expect.stringMatching(/^127\./) });
  expect(of(CHANNELS.connect).length).toBeGreaterThan(0);
  expect(trunks.map(({ message }) => message)).toMatchObject([{ store, files: 1 }]);
  const row = REFERENCE.split('\n').find((line) => line.startsWith('| `stevedore.trunk` |'))!;
  const listed = row.match(/\{ (.*) \}/)![1]!.split(', ');
  expect(Object.keys(trunks[0]!.message).sort()).toEqual(listed.sort());
  const failed = errors.filter(({ name }) => name === `tracing:${STORE_CHANNELS.get}:error`);
  expect(failed).toMatchObject([{ message: { id: key, error: { code: 'not_found' } } }]);
});

test('stats count what was done since the start', async () => {
  const store = await opened();
  const trunks: TrunkEvent[] = [];
  store.on('trunk', (trunk) => trunks.push(trunk));
  const { key } = await store.put(Buffer.alloc(1000), { name: 'a.bin' });
  await store.putAll([{ body: 'one' }, { body: 'three' }]);
  await expect(store.put('too long', { maxBytes: 3 })).rejects.toMatchObject({ code: 'too_large' });
  await store.flush();
  expect(trunks).toHaveLength(1);
  expect(trunks[0]!.durationMs).toBeGreaterThanOrEqual(0);
  const file = await store.get(key);
  await file.bytes();
  await file.bytes({ range: { start: 0, end: 9 } });
  await store.delete(key);
  const stats = store.stats();
  expect(stats).toMatchObject({
    acknowledgedFiles: 3,
    acknowledgedBytes: 1008,
    failedUploads: 1,
    deletedFiles: 1,
    reads: 2,
    readBytes: 1010,
    failedReads: 0,
    trunksInFlight: 0,
    sendRetries: 0,
    unpackableFiles: 0,
  });
  const { room, connections } = stats;
  expect(room.resumeBytes).toBeLessThan(room.limitBytes);
  expect(room.usedBytes).toBe(stats.containerBytes);
  expect(room.freeBytes).toBeGreaterThan(room.minFreeBytes);
  expect(connections.open).toBe(connections.idle + connections.leased);
  expect(connections.requests).toBeGreaterThan(0);
});

test('events are known by name, with the types of what they carry', async () => {
  const store = await opened();
  const merged: string[] = [];
  store.on('merged', ({ key, fileId }) => {
    expectTypeOf(fileId).toEqualTypeOf<string>();
    merged.push(key);
  });
  store.on('trunk', (event) => expectTypeOf(event).toEqualTypeOf<TrunkEvent>());
  store.on('refused', (error) => expectTypeOf(error).toEqualTypeOf<Error>());
  // @ts-expect-error: a listener of an event that does not exist
  store.on('mergd', ({ key }) => merged.push(key));
  const { key } = await store.put('a file');
  await store.flush();
  expect(merged).toEqual([key]);
});
