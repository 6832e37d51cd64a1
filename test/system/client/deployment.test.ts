import { randomBytes } from 'node:crypto';
import { cp } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type OpenOptions, open } from '@stevedore/client';
import { discardFileMap } from '@stevedore/client/internal';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
} from 'vitest';
import { server } from '../../support/client/servers.js';
import { needsPostgres, PostgresServer } from '../../support/map/postgres-server.js';
import { soon } from '../../support/soon.js';
import { until } from '../../support/staging.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Several servers, one FastDFS, one map: a key is good at each of them. */

const CONTENT = Buffer.from('the content of a small file');
const LARGE = Buffer.alloc(3_000_000, 'large');

/** Two servers; the first has the embedded FastDFS. */
async function pair(map: string, options: OpenOptions = {}) {
  const first = await server({ map, mergeMaxAge: '1h', ...options });
  const second = await server({ map, trackers: first.trackers as string[], ...options });
  return { first, second };
}

const sqlite = (): string => `sqlite:${join(temporaryFolder(), 'map.db')}`;

function suite(newMap: () => string): void {
  it('reads files that another server has merged', async () => {
    const { first, second } = await pair(newMap(), { smallFileLimit: '1MiB' });
    const meta = { name: 'a "photo" ü.jpg', type: 'image/jpeg', group: 'album' };
    const small = await first.put(CONTENT, meta);
    const empty = await first.put(Buffer.alloc(0));
    const large = await first.put(LARGE, { name: 'large.bin' });
    await expect(second.get(small.key)).rejects.toMatchObject({ code: 'storage_unavailable' });
    await first.flush();
    const file = await soon(() => second.get(small.key));
    expect(await file.bytes()).toEqual(CONTENT);
    expect(await file.bytes({ range: { start: 4, end: 10 } })).toEqual(CONTENT.subarray(4, 11));
    const own = await first.stat(small.key);
    expect(await second.stat(small.key)).toEqual(own);
    expect(await second.settled(small.key)).toBe(own.fileId);
    expect(await (await soon(() => second.get(empty.key))).bytes()).toEqual(Buffer.alloc(0));
    const whole = await soon(() => second.get(large.key));
    expect((await whole.bytes()).equals(LARGE)).toBe(true);
    expect(await second.stat(large.key)).toEqual(await first.stat(large.key));
    const third = await server({ map: sqlite(), trackers: first.trackers as string[] });
    await expect(third.get(small.key)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('gives a file of a thin trunk no id at any server, however old the trunk is', async () => {
    const map = newMap();
    const directory = temporaryFolder();
    const node = await server({});
    const trackers = node.trackers as string[];
    const first = await server({ directory, map, trackers, idMaxAge: '7d', mergeMaxAge: '50ms' });
    // One that would have given it out by now.
    const second = await server({ map, trackers, idMaxAge: '1s' });
    const { key, stagedAt } = await first.put(CONTENT, { name: 'a.txt' });
    const expected = { state: 'packing', name: 'a.txt' };
    await soon(async () => expect(await first.stat(key)).toMatchObject(expected));
    const elsewhere = await soon(() => second.get(key));
    expect(await elsewhere.bytes()).toEqual(CONTENT);
    // Its own limit would have passed by then.
    await until(() => Date.now() > stagedAt.getTime() + 2_000);
    expect((await second.stat(key)).fileId).toBeUndefined();
    await first.close();
    // Its operator wants ids at once: the trunk stays as it is.
    await server({ directory, map, trackers });
    // The second one may know for a minute what the map said.
    const third = await server({ map, trackers });
    const id = await third.settled(key, { signal: AbortSignal.timeout(30_000) });
    expect(await (await second.get(id)).bytes()).toEqual(CONTENT);
  });

  it('deletes at every server what is deleted at one, whoever staged it', async () => {
    const { first, second } = await pair(newMap());
    const receipts = await Promise.all([0, 1, 2].map((each) => first.put(`file ${each}`)));
    await first.flush();
    const [byOwner, byOther, bySlice] = receipts as [
      (typeof receipts)[0],
      (typeof receipts)[0],
      (typeof receipts)[0],
    ];
    for (const { key } of receipts) await (await soon(() => second.get(key))).bytes();
    const ids = await Promise.all(receipts.map(({ key }) => first.settled(key)));
    for (const id of ids) expect((await (await second.get(id)).bytes()).length).toBe(6);
    await first.delete(byOwner.key);
    await second.delete(byOther.key);
    await second.delete(ids[2]!);
    const gone = { code: 'not_found' };
    await expect(second.get(byOther.key)).rejects.toMatchObject(gone);
    for (const store of [first, second]) {
      for (const id of [byOwner.key, byOther.key, bySlice.key, ...ids]) {
        await soon(() => expect(store.get(id)).rejects.toMatchObject(gone));
      }
    }
    await expect(second.delete(byOwner.key)).rejects.toMatchObject(gone);
    await expect(second.delete(byOther.key)).rejects.toMatchObject(gone);
  });

  it('has deleted a file for every server before its deletion is acknowledged', async () => {
    const map = newMap();
    const { first, second } = await pair(map);
    const merged = await Promise.all([0, 1].map((each) => first.put(`file ${each}`)));
    await first.flush();
    for (const { key } of merged) await soon(() => second.stat(key));
    const staged = await first.put('staged');
    const third = await server({ map, trackers: first.trackers as string[] });
    for (const { key } of [...merged, staged]) {
      await first.delete(key);
      // It asks the map, and this server no more.
      await expect(third.get(key)).rejects.toMatchObject({ code: 'not_found' });
    }
  });

  it('finds no file at its start that another server deleted while it was stopped', async () => {
    const map = newMap();
    const node = await server({});
    const options = { map, trackers: node.trackers as string[], mergeMaxAge: '1h' } as const;
    const directory = temporaryFolder();
    const first = await server({ ...options, directory });
    const second = await server(options);
    const { key } = await first.put(CONTENT);
    await first.flush();
    await soon(() => second.get(key));
    await first.close();
    await second.delete(key);
    const again = await server({ ...options, directory });
    await expect(again.get(key)).rejects.toMatchObject({ code: 'not_found' });
    expect((await again.list()).files).toEqual([]);
  });

  it('tells a map what was merged before there was one', async () => {
    const directory = temporaryFolder();
    const alone = await server({ directory });
    const [kept, gone] = [await alone.put('kept'), await alone.put('gone')];
    await alone.flush();
    await alone.delete(gone.key);
    await alone.close();
    const map = newMap();
    const first = await server({ directory, map });
    const second = await server({ map, trackers: first.trackers as string[] });
    expect((await (await soon(() => second.get(kept.key))).bytes()).toString()).toBe('kept');
    await soon(() => expect(second.get(gone.key)).rejects.toMatchObject({ code: 'not_found' }));
  });

  it('counts the servers that are there', async () => {
    const { first, second } = await pair(newMap());
    const count = (servers: number) =>
      soon(async () => expect(first.deployment!.liveServers()).toBe(servers));
    await count(2);
    await second.close();
    await count(1);
  });

  it('refuses a copy of a directory while the other one is in use', async () => {
    const map = newMap();
    const { first } = await pair(map);
    const directory = temporaryFolder();
    const second = await server({ map, directory, trackers: first.trackers as string[] });
    await second.put('staged');
    const copy = temporaryFolder();
    // A file that is being replaced is soon gone.
    const isKept = (name: string) => name !== 'lock' && !name.endsWith('.new');
    await cp(directory, copy, { recursive: true, filter: (path) => isKept(basename(path)) });
    // A refused start does not free the directory for the next one.
    for (let attempt = 0; attempt < 2; attempt++) {
      const opened = open({
        idMaxAge: 0,
        map,
        directory: copy,
        trackers: first.trackers as string[],
      });
      await expect(opened).rejects.toMatchObject({ code: 'origin_taken' });
    }
    expect(second.stats().map).toEqual({ pending: 0, isMapAvailable: true, silent: [] });
    await second.close();
    const again = await server({ map, directory: copy, trackers: first.trackers as string[] });
    expect(again.stats()).toMatchObject({ stagedFiles: 1, map: { isMapAvailable: true } });
  });
}

// One map is as good as another here: test/map holds them all to one contract.
describe('servers with a map', () => {
  if (needsPostgres.missing) return suite(sqlite);
  suite(() => database.newDatabase());
});

let database: PostgresServer;
beforeAll(async () => {
  if (!needsPostgres.missing) database = await PostgresServer.start(true);
});
afterAll(() => database?.stop());

describe.skipIf(needsPostgres.missing)('servers with a map in PostgreSQL', () => {
  let map: string;
  beforeEach(() => {
    map = database.newDatabase();
  });
  afterEach(async () => {
    await database.kill();
    await database.restart();
  });

  it('tell it of a deletion although the FileMap was lost before it could be told', async () => {
    const directory = temporaryFolder();
    const first = await server({ map });
    const trackers = first.trackers as string[];
    const second = await server({ map, trackers, directory, mergeMaxAge: '1h' });
    for (const store of [first, second]) store.on('error', () => {});
    const [kept, gone] = [await second.put('kept'), await second.put('gone')];
    await second.flush();
    for (const { key } of [kept, gone]) await (await soon(() => first.get(key))).bytes();
    await database.kill();
    await second.delete(gone.key);
    await second.close();
    await discardFileMap(directory);
    await database.restart();
    const again = await server({ map, trackers, directory });
    await soon(() => expect(first.get(gone.key)).rejects.toMatchObject({ code: 'not_found' }));
    expect((await (await first.get(kept.key)).bytes()).toString()).toBe('kept');
    await expect(again.get(gone.key)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('know each other by the secret that they had, where one starts while the map is away', async () => {
    const directory = temporaryFolder();
    const first = await server({ map });
    const trackers = first.trackers as string[];
    const before = await server({ map, trackers, directory });
    const { secret } = before.deployment!;
    expect(secret).toBe(first.deployment!.secret);
    await before.close();
    first.on('error', () => {});
    await database.kill();
    const again = await server({ map, trackers, directory });
    again.on('error', () => {});
    expect(again.deployment!.secret).toBe(secret);
    expect(again.stats().map!.isMapAvailable).toBe(false);
    // Who asks for a key of another server is not kept waiting.
    const { key } = await first.put('at the first');
    await expect(again.get(key)).rejects.toMatchObject({ code: 'storage_unavailable' });
  });

  it('wait for a map that hangs once, for less than a statement may take', async () => {
    const { first, second } = await pair(map);
    for (const store of [first, second]) store.on('error', () => {});
    const { key } = await first.put('staged');
    const unavailable = { code: 'storage_unavailable' };
    await soon(() => expect(second.get(key)).rejects.toMatchObject(unavailable));
    database.signal('SIGSTOP');
    onTestFinished(() => database.signal('SIGCONT'));
    const asked = [
      () => second.get(key),
      () => second.delete(key),
      () => second.put('once', { once: randomBytes(16) }),
    ];
    const late = sleep(8_000, 'late');
    const failed = (async () => {
      for (const ask of asked) await ask().catch(() => undefined);
      return (await second.list()).away;
    })();
    expect(await Promise.race([failed, late])).toEqual([first.deployment!.origin]);
    expect(second.stats().map!.isMapAvailable).toBe(false);
    database.signal('SIGCONT');
    await first.flush();
    expect((await (await soon(() => second.get(key))).bytes()).toString()).toBe('staged');
  });

  it('go on while the map is away, and tell it afterwards', async () => {
    const { first, second } = await pair(map, { stagedCopies: 1 });
    const errors: Error[] = [];
    for (const store of [first, second]) store.on('error', (error) => errors.push(error));
    const before = await first.put('before');
    await first.flush();
    await (await soon(() => second.get(before.key))).bytes();
    // A second copy is wanted, and no partner has had any.
    const alone = await server({ map, trackers: first.trackers as string[] });
    const { key, copies } = await alone.put('alone');
    expect(copies).toBe(1);
    await database.kill();
    await alone.delete(key);
    const meanwhile = await first.put('meanwhile');
    await first.flush();
    expect((await (await first.get(meanwhile.key)).bytes()).toString()).toBe('meanwhile');
    await expect(second.get(meanwhile.key)).rejects.toMatchObject({ code: 'storage_unavailable' });
    await soon(async () => expect(first.stats().map?.isMapAvailable).toBe(false));
    expect(first.stats().map?.pending).toBe(1);
    await database.restart();
    expect((await (await soon(() => second.get(meanwhile.key))).bytes()).toString()).toBe(
      'meanwhile',
    );
    expect(first.stats().map?.pending).toBe(0);
    expect(new Set(errors.map((error) => (error as { code?: string }).code))).toEqual(
      new Set(['map_unavailable']),
    );
  });
});
