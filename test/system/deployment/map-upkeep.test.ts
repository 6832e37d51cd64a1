import { join } from 'node:path';
import {
  checkDeploymentMap,
  drainGateway,
  fillMap,
  openForGateway,
  rebuildDeploymentMap,
} from '@stevedore/client/internal';
import { openDatabase } from '@stevedore/disk/sqlite';
import { openMap } from '@stevedore/map';
import { expect, it, onTestFinished } from 'vitest';
import { bytesOf, server } from '../../support/client/servers.js';
import { soon } from '../../support/soon.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A map is filled from stores, held against the trunks, and made anew from them. */

const GONE = { code: 'not_found' };

const fail = (error: Error): void => expect.fail(error.message);

function newMap() {
  const path = join(temporaryFolder(), 'map.db');
  const run = (statement: string, ...values: unknown[]): void => {
    const database = openDatabase(path);
    database.prepare(statement).run(...values);
    database.close();
  };
  return { map: `sqlite:${path}`, run };
}

/** A server that has merged five files and a large one and deleted one, and one that reads. */
async function scene(map: string) {
  const reader = await server({ map });
  const trackers = reader.trackers as string[];
  const directory = temporaryFolder();
  const owner = await server({ map, trackers, directory, smallFileLimit: '64KiB' });
  const keys: string[] = [];
  for (let n = 0; n < 5; n++) keys.push((await owner.put(`file ${n}`, { name: `${n}.txt` })).key);
  const { key: large } = await owner.put(Buffer.alloc(200_000), { name: 'large.bin' });
  await owner.flush();
  await owner.delete(keys[0]!);
  await soon(async () => expect(owner.stats().map?.pending).toBe(0));
  return { reader, owner, trackers, directory, keys, large };
}

it('a store that never had a map is published, and again after the map was lost', async () => {
  const alone = temporaryFolder();
  const cluster = await server({});
  const trackers = cluster.trackers as string[];
  const before = await server({ directory: alone, trackers });
  const [kept, gone] = [await before.put('kept'), await before.put('gone')];
  await before.flush();
  await before.delete(gone.key);
  await before.close();
  // Of a worker.
  const beside = await server({ directory: join(alone, 'workers', '2'), trackers });
  const own = await beside.put('of a worker');
  await beside.flush();
  await beside.close();
  const maps = [newMap(), newMap()];
  const joins = (map: string) =>
    openForGateway({ directory: alone, trackers, map }, { siblings: [] });
  for (const { map } of maps) {
    const steps: (readonly [number, number])[] = [];
    const fill = () =>
      fillMap({ map, directory: alone, trackers }, (...step) => steps.push(step), fail);
    for (let times = 0; times < 2; times++) {
      expect(await fill()).toEqual({ trunks: 2, files: 2 });
      expect(steps.at(-1)![0]).toBe(steps.at(-1)![1]);
    }
    const reader = await server({ map, trackers });
    expect(await bytesOf(reader, kept.key)).toBe('kept');
    expect(await bytesOf(reader, own.key)).toBe('of a worker');
    await expect(reader.get(gone.key)).rejects.toMatchObject(GONE);
  }
  // It belongs to the second map, and leaves no trace in the first.
  const [first, second] = maps as [(typeof maps)[0], (typeof maps)[0]];
  const lines = await (await opened(first.map)).gateways();
  await expect(joins(first.map)).rejects.toMatchObject({ code: 'map_mismatch' });
  expect(await (await opened(first.map)).gateways()).toEqual(lines);
  await (await joins(second.map)).close();
});

it('a filling that was cut short goes on where it was', async () => {
  const directory = temporaryFolder();
  const { map } = newMap();
  const first = await server({ map, directory });
  const trackers = (await server({})).trackers as string[];
  await first.close();
  const store = await server({ directory, map, trackers });
  for (let n = 0; n < 3; n++) {
    await store.put(`file ${n}`);
    await store.flush();
  }
  await soon(async () => expect(store.stats().map?.pending).toBe(0));
  await store.close();
  // As if it had been killed: two of three entries are published.
  const filemap = openDatabase(join(directory, 'filemap.sqlite'));
  filemap.exec(`INSERT INTO outbox (id, trunk) SELECT 3, max(id) FROM trunks;
    INSERT OR REPLACE INTO marks VALUES ('fill', '3')`);
  filemap.close();
  const steps: number[] = [];
  await fillMap({ map, directory, trackers }, (_, all) => steps.push(all), fail);
  expect(Math.max(...steps)).toBeLessThanOrEqual(1);
  const full: number[] = [];
  await fillMap({ map, directory, trackers }, (_, all) => full.push(all), fail);
  expect(Math.max(...full)).toBeGreaterThan(1);
});

it('what a map says wrongly is found, and mended where the directories are clear', async () => {
  const { map, run } = newMap();
  const { reader, trackers, keys, large } = await scene(map);
  const check = (repair: boolean) => checkDeploymentMap({ map, trackers }, { repair });
  expect(await check(false)).toEqual({
    ...{ trunks: 2, files: 6, problems: [], more: 0, unlisted: [] },
  });
  const bytes = (key: string) => Buffer.from(key, 'base64url');
  run('DELETE FROM stevedore_file WHERE file_key = ?', bytes(keys[1]!));
  run('UPDATE stevedore_file SET position = position + 1 WHERE file_key = ?', bytes(keys[2]!));
  run("UPDATE stevedore_file SET about = '{}' WHERE file_key = ?", bytes(keys[3]!));
  const lost = Buffer.from(bytes(keys[4]!));
  lost[15] = lost[15]! ^ 3;
  run(
    `INSERT INTO stevedore_file SELECT ?, trunk, position, size, crc32, about, expires_at
      FROM stevedore_file WHERE file_key = ?`,
    ...[lost, bytes(keys[4]!)],
  );
  const expected = [
    ['file_missing', keys[1]],
    ['file_wrong', keys[2]],
    ['file_wrong', keys[3]],
    ['file_nowhere', lost.toString('base64url')],
  ];
  const found = await check(false);
  expect(found.problems.map(({ code, subject }) => [code, subject])).toEqual(expected);
  expect(found.problems.some(({ repaired }) => repaired)).toBe(false);
  const mended = await check(true);
  expect(mended.problems.map(({ code, subject }) => [code, subject])).toEqual(expected);
  expect(mended.problems.every(({ repaired }) => repaired)).toBe(true);
  expect((await check(false)).problems).toEqual([]);
  for (const n of [1, 2, 3, 4]) expect(await bytesOf(reader, keys[n]!)).toBe(`file ${n}`);
  expect((await reader.stat(keys[3]!)).name).toBe('3.txt');
  // A trunk that is gone is said, and nothing is done to what the map has of it.
  const [trunk] = (await (await opened(map)).trunks(Buffer.alloc(0), 10)).filter(
    ({ isWhole }) => isWhole,
  );
  await reader.delete(large);
  run('DELETE FROM stevedore_trunk WHERE trunk = ?', trunk!.id);
  run(
    'INSERT INTO stevedore_trunk (trunk, file_id, whole) VALUES (?, ?, NULL)',
    ...[trunk!.id, trunk!.fileId.replace('/M00/', '/M00/').replace(/.{7}\./, 'AAAAAAA.')],
  );
  const gone = await soon(async () => {
    const report = await check(true);
    expect(report.problems.map(({ code }) => code)).toContain('trunk_missing');
    return report;
  });
  expect(gone.problems.filter(({ repaired }) => repaired)).toEqual([]);
});

async function opened(map: string) {
  const one = await openMap(map);
  onTestFinished(() => one.close());
  await one.prepare();
  return one;
}

it('a map that is lost is made anew from the trunks of servers that are gone, whatever moved', async () => {
  const { map } = newMap();
  const { reader, owner, trackers, keys } = await scene(map);
  // Three of five are dead: the others move to another trunk.
  await owner.delete(keys[1]!);
  await owner.delete(keys[2]!);
  await soon(async () => expect(owner.stats().stagedFiles).toBe(2));
  await owner.flush();
  const own = await reader.put('of one that is alive');
  await reader.flush();
  await owner.close();
  const { map: other } = newMap();
  const options = { map: other, trackers };
  const again = await server({ ...options });
  const mine = await again.put('mine');
  await again.flush();
  await soon(async () => expect(again.stats().map?.pending).toBe(0));
  const report = await rebuildDeploymentMap(options);
  expect(report).toMatchObject({ left: 1, unlisted: [] });
  expect(await rebuildDeploymentMap(options)).toMatchObject({ files: 0, left: 1 });
  const reads = await server(options);
  for (const n of [3, 4]) expect(await bytesOf(reads, keys[n]!)).toBe(`file ${n}`);
  expect(await bytesOf(reads, own.key)).toBe('of one that is alive');
  expect(await bytesOf(reads, mine.key)).toBe('mine');
  expect((await checkDeploymentMap(options, { repair: false })).problems).toEqual([]);
});

it('asks for a map and for trackers', async () => {
  const { map } = newMap();
  const wrong = { code: 'invalid_option' };
  await expect(rebuildDeploymentMap({ map })).rejects.toMatchObject(wrong);
  await expect(rebuildDeploymentMap({ trackers: ['127.0.0.1:1'] })).rejects.toMatchObject(wrong);
});

it('a gateway that is drained leaves nothing behind', async () => {
  const { map } = newMap();
  const stays = await server({ map });
  const trackers = stays.trackers as string[];
  const directory = temporaryFolder();
  const leaves = await server({ map, trackers, directory, mergeMaxAge: '1h' });
  const [kept, gone] = [await leaves.put('kept'), await leaves.put('gone')];
  await leaves.delete(gone.key);
  await leaves.close();
  const drain = async () => {
    const warned: Error[] = [];
    const options = { map, trackers, directory, mergeMaxAge: '1h' } as const;
    const report = drainGateway(
      options,
      () => undefined,
      (error) => warned.push(error),
    );
    return { warned, ...(await report) };
  };
  const { origins, ...drained } = await drain();
  expect(drained).toMatchObject({ files: 1, warned: [] });
  // It was cut off before the directory of a worker.
  const other = await server({ map, trackers, directory: join(directory, 'workers', '2') });
  const own = await other.put('of a worker');
  await other.close();
  const refused = { code: 'origin_adopted' };
  const rest = await drain();
  expect(rest).toMatchObject({ files: 1, warned: [refused] });
  expect(await bytesOf(stays, own.key)).toBe('of a worker');
  await expect(drain()).rejects.toMatchObject(refused);
  expect(await bytesOf(stays, kept.key)).toBe('kept');
  await expect(stays.get(gone.key)).rejects.toMatchObject(GONE);
  await stays.delete(kept.key);
  await expect(stays.get(kept.key)).rejects.toMatchObject(GONE);
  // The directory is a new one, should it start again.
  const again = await openForGateway({ map, trackers, directory }, { siblings: [] });
  onTestFinished(() => again.close());
  expect(origins).not.toContain(again.deployment!.origin);
});
