import { join } from 'node:path';
import { adoptOrigin, type GatewayStore, openForUpkeep } from '@stevedore/client/internal';
import { openDatabase } from '@stevedore/disk/sqlite';
import { FastdfsClient } from '@stevedore/fastdfs';
import { openMap } from '@stevedore/map';
import { expect, it, onTestFinished } from 'vitest';
import { bytesOf, server } from '../../support/client/servers.js';
import { soon } from '../../support/soon.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What becomes of the files of a server that will not return. */

const GONE = { code: 'not_found' };

/** Three servers of one FastDFS; the third one is to be adopted. */
async function three() {
  const path = join(temporaryFolder(), 'map.db');
  const map = `sqlite:${path}`;
  const first = await server({ map });
  const trackers = first.trackers as string[];
  const second = await server({ map, trackers });
  const directory = temporaryFolder();
  const third = await server({ map, trackers, directory, smallFileLimit: '64KiB' });
  const origin = third.deployment!.origin;
  return { path, map, trackers, first, second, third, directory, origin };
}

const published = (store: GatewayStore) =>
  soon(async () => expect(store.stats().map?.pending).toBe(0));

it('another server has its merged files: it deletes and compacts them, by key and by slice id', async () => {
  const { map, first, second, third, origin, directory, trackers } = await three();
  const receipts = await Promise.all(
    Array.from({ length: 10 }, (_, n) => third.put(`file ${n}`, { name: `${n}.txt` })),
  );
  const keys = receipts.map(({ key }) => key);
  const large = await third.put(Buffer.alloc(200_000, 'x'), { name: 'large.bin' });
  const goneLarge = await third.put(Buffer.alloc(200_000, 'y'), { name: 'gone.bin' });
  await third.flush();
  const ids = await Promise.all(keys.map((key) => third.settled(key)));
  await third.delete(keys[0]!);
  await third.delete(goneLarge.key);
  const staged = await third.put('only there');
  await published(third);
  await third.close();

  const before = first.stats();
  const by = first.deployment!.origin;
  const report = await adoptOrigin({ map, origin, by });
  expect(report).toMatchObject({ origin, by, trunks: 2, adopted: 2 });
  // Deleted by its own server, and for ever.
  for (const store of [first, second]) {
    await expect(store.get(keys[0]!)).rejects.toMatchObject(GONE);
    await expect(store.get(ids[0]!)).rejects.toMatchObject(GONE);
    await expect(store.get(goneLarge.key)).rejects.toMatchObject(GONE);
    for (let n = 1; n < 10; n++) {
      expect(await bytesOf(store, keys[n]!)).toBe(`file ${n}`);
      expect(await bytesOf(store, ids[n]!)).toBe(`file ${n}`);
    }
    expect((await bytesOf(store, large.key)).length).toBe(200_000);
  }
  expect(first.stats().mergedFiles).toBe(before.mergedFiles + 10);
  // The adopter says for certain that what only the disk had is nowhere.
  await expect(first.get(staged.key)).rejects.toMatchObject(GONE);

  await first.delete(keys[1]!);
  await second.delete(keys[2]!);
  await second.delete(ids[3]!);
  await second.delete(large.key);
  for (const store of [first, second]) {
    for (const id of [1, 2, 3].flatMap((n) => [keys[n]!, ids[n]!])) {
      await soon(() => expect(store.get(id)).rejects.toMatchObject(GONE));
    }
    await soon(() => expect(store.get(large.key)).rejects.toMatchObject(GONE));
  }
  // More than half of the trunk is dead: the adopter moves the rest under the same keys.
  for (const n of [4, 5, 6]) await first.delete(keys[n]!);
  await soon(async () => expect(first.stats().stagedFiles).toBe(3));
  await first.flush();
  await published(first);
  for (const store of [first, second]) {
    for (const n of [7, 8, 9]) {
      expect(await bytesOf(store, keys[n]!)).toBe(`file ${n}`);
    }
    await soon(() => expect(store.get(keys[4]!)).rejects.toMatchObject(GONE));
  }
  const again = await adoptOrigin({ map, origin });
  expect(again).toMatchObject({ by, trunks: 2, adopted: 2 });
  const returned = openForUpkeep({ map, trackers, directory });
  await expect(returned).rejects.toMatchObject({ code: 'origin_adopted' });
});

it('trunks of which the map had not heard are found in FastDFS', async () => {
  const { path, map, first, second, third, origin } = await three();
  const before = await third.put('before');
  await third.flush();
  await published(third);
  const { key } = await third.put('the map was away');
  await third.flush();
  await published(third);
  await third.close();
  const database = openDatabase(path);
  const forget = (table: string) =>
    database
      .prepare(`DELETE FROM ${table} WHERE trunk <> (SELECT min(trunk) FROM stevedore_trunk)`)
      .run();
  for (const table of ['stevedore_file', 'stevedore_trunk']) forget(table);
  database.close();
  await expect(second.get(key)).rejects.toMatchObject({ code: 'storage_unavailable' });
  const by = first.deployment!.origin;
  expect(await adoptOrigin({ map, origin, by })).toMatchObject({ trunks: 2, adopted: 2 });
  for (const store of [first, second]) {
    expect(await soon(() => bytesOf(store, key))).toBe('the map was away');
    expect(await bytesOf(store, before.key)).toBe('before');
  }
});

it('of a trunk that was stored twice, because its reply was lost, one is removed', async () => {
  const { path, map, trackers, first, third, origin } = await three();
  const receipts = await Promise.all(['a', 'b'].map((text) => third.put(text)));
  await third.flush();
  await published(third);
  await third.close();
  const database = openDatabase(path);
  const row = database.prepare('SELECT file_id FROM stevedore_trunk').get();
  database.close();
  const { file_id: stored } = row as { file_id: string };
  const client = new FastdfsClient({ trackers });
  onTestFinished(() => client.close());
  const again = await client.upload(await client.downloadBytes(stored), { extension: 'merged' });
  expect(again).not.toBe(stored);
  const by = first.deployment!.origin;
  expect(await adoptOrigin({ map, origin, by })).toMatchObject({ trunks: 1, adopted: 1 });
  await soon(() => expect(client.download(again)).rejects.toMatchObject(GONE));
  for (const [n, { key }] of receipts.entries()) expect(await bytesOf(first, key)).toBe('ab'[n]);
});

it('a trunk that its own server had given up is not counted as lost, and one with files is', async () => {
  const { path, map, trackers, first, third, second, origin } = await three();
  const keys: string[] = [];
  for (const text of ['kept', 'deleted', 'lost']) {
    keys.push((await third.put(text, { name: `${text}.txt` })).key);
    await third.flush();
    await published(third);
  }
  const [kept, deleted, lost] = keys as [string, string, string];
  await third.close();
  const database = openDatabase(path);
  const idOf = database.prepare(
    `SELECT file_id FROM stevedore_trunk JOIN stevedore_file USING (trunk) WHERE file_key = ?`,
  );
  const trunks = [deleted, lost].map((key) => idOf.get(Buffer.from(key, 'base64url')));
  database.close();
  const client = new FastdfsClient({ trackers });
  onTestFinished(() => client.close());
  for (const trunk of trunks) await client.delete((trunk as { file_id: string }).file_id);
  await second.delete(deleted);
  const by = first.deployment!.origin;
  const report = await adoptOrigin({ map, origin, by });
  expect(report).toMatchObject({ trunks: 2, adopted: 1 });
  expect(report.lostFiles).toEqual([{ key: lost, name: 'lost.txt' }]);
  expect(await bytesOf(first, kept)).toBe('kept');
  await expect(first.get(deleted)).rejects.toMatchObject(GONE);
  await expect(bytesOf(first, lost)).rejects.not.toMatchObject(GONE);
});

it('a server that is alive is not adopted, and one that was meanwhile stops', async () => {
  const { path, map, first, third, origin } = await three();
  await soon(async () => expect(third.stats().map?.isMapAvailable).toBe(true));
  const by = first.deployment!.origin;
  const refused = { code: 'adoption_refused' };
  await expect(adoptOrigin({ map, origin, by })).rejects.toMatchObject(refused);
  await expect(adoptOrigin({ map, origin })).rejects.toMatchObject(refused);
  await expect(adoptOrigin({ map, origin: by, by })).rejects.toMatchObject(refused);
  const other = (origin % 65_535) + 1;
  await expect(adoptOrigin({ map, origin: other, by })).rejects.toMatchObject(refused);
  // As if it had been stopped for long.
  const database = openDatabase(path);
  database.prepare('UPDATE stevedore_gateway SET seen_at = 0 WHERE origin = ?').run(origin);
  const stopped = new Promise((resolve) => third.on('refused', resolve));
  await adoptOrigin({ map, origin, by });
  database.close();
  expect(await stopped).toMatchObject({ code: 'origin_adopted' });
  await soon(() => expect(third.put('too late')).rejects.toMatchObject({ code: 'closed' }));
}, 30_000);

it('who is adopted passes on what it has adopted', async () => {
  const { map, first, second, third, origin } = await three();
  const { key } = await third.put('a file');
  await third.flush();
  await published(third);
  await third.close();
  const middle = second.deployment!.origin;
  await adoptOrigin({ map, origin, by: middle });
  const own = await second.put('another');
  await second.flush();
  await published(second);
  await second.close();
  await adoptOrigin({ map, origin: middle });
  for (const [id, content] of [
    [key, 'a file'],
    [own.key, 'another'],
  ] as const) {
    await soon(async () => expect(await bytesOf(first, id)).toBe(content));
    await first.delete(id);
    await expect(first.get(id)).rejects.toMatchObject(GONE);
  }
});

it('a server whose directory was taken over elsewhere while it ran stops', async () => {
  const { path, first, third, origin } = await three();
  await soon(async () => expect(third.stats().map?.isMapAvailable).toBe(true));
  const stopped = new Promise((resolve) => third.on('refused', resolve));
  const database = openDatabase(path);
  const take = "UPDATE stevedore_gateway SET place = 'elsewhere' WHERE origin = ?";
  database.prepare(take).run(origin);
  expect(await stopped).toMatchObject({ code: 'origin_taken' });
  await soon(() => expect(third.put('too late')).rejects.toMatchObject({ code: 'closed' }));
  // It has not said that it left: the other one goes on.
  const { place } = database
    .prepare('SELECT place FROM stevedore_gateway WHERE origin = ?')
    .get(origin) as { place: string };
  expect(place).toBe('elsewhere');
  // The database was replaced by an empty one: nobody else has the files of this server.
  const failure = new Promise((resolve) => first.on('error', resolve));
  database.prepare('DELETE FROM stevedore_gateway').run();
  database.close();
  expect(await failure).toMatchObject({ code: 'map_mismatch' });
  await first.put('not too late');
  expect(first.stats().map?.isMapAvailable).toBe(false);
}, 30_000);

it('a program that only maintains the directory of the holder does not end an adoption', async () => {
  const path = join(temporaryFolder(), 'map.db');
  const map = `sqlite:${path}`;
  const cluster = await server({ map });
  const trackers = cluster.trackers as string[];
  const directory = temporaryFolder();
  const holder = await server({ map, trackers, directory });
  const by = holder.deployment!.origin;
  const lost = await server({ map, trackers });
  const { origin } = lost.deployment!;
  await Promise.all([holder, lost].map((store) => store.close()));
  const database = openDatabase(path);
  database.prepare('UPDATE stevedore_gateway SET holder = ? WHERE origin = ?').run(by, origin);
  database.close();
  const stopped = new AbortController();
  const troubled = new Promise<string>((resolve) => {
    const request = { map, origin, signal: stopped.signal, onTrouble: resolve };
    adoptOrigin(request).then(
      ({ adopted }) => resolve(`done with ${adopted} trunks`),
      (error: Error) => resolve(error.message),
    );
  });
  const upkeep = await openForUpkeep({ map, trackers, directory });
  onTestFinished(() => upkeep.close());
  expect(await troubled).toContain('only a running gateway');
  stopped.abort();
}, 30_000);

it('a worker of the gateway that is gone does not adopt its files unless it is named', async () => {
  const url = `sqlite:${join(temporaryFolder(), 'map.db')}`;
  const map = await openMap(url);
  onTestFinished(() => map.close());
  await map.prepare();
  const enter = (instance: string, place: string, of: string) =>
    map.join({ instance: instance.repeat(32), origin: undefined, url: of, place });
  const { origin } = await enter('1', 'host:/data#a', 'http://10.0.0.1');
  await enter('2', 'host:/data/workers/2#b', 'http://10.0.0.1');
  const asked = async () => {
    const stop = new AbortController();
    let by: number | undefined;
    const onAsked = (_: unknown, adopter: { readonly origin: number }) => {
      by = adopter.origin;
      stop.abort();
    };
    const adopting = adoptOrigin({ map: url, origin, onAsked, signal: stop.signal });
    await adopting.catch((error: Error) => {
      if (!stop.signal.aborted) throw error;
    });
    return by;
  };
  await map.leave(origin, 'host:/data#a');
  await expect(asked()).rejects.toThrow('no other gateway is alive');
  const { origin: other } = await enter('3', 'host:/other#c', 'http://10.0.0.2');
  expect(await asked()).toBe(other);
});
