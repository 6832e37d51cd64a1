import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { decoratedDisk, localDisk } from '@stevedore/disk';
import { describe, expect, it, vi } from 'vitest';
import type { RequestClass } from '../../../packages/tiering/dist/scheduler/scheduler.js';
import type { TierOptions } from '../../../packages/tiering/dist/tier-options.js';
import { until } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';
import { change, contentOf, OTHER_GROUP, Place, store } from '../../support/tiering/harness.js';
import { KIB, migrationOf, SECOND } from '../../support/tiering/migrating.js';

describe('the load of metadata', () => {
  it('makes small files wait, and no longer than two intervals after its end', async () => {
    const { scheduler, interval, migration, clock } = await migrationOf();
    await interval({ metadata: 700_000, smallFile: 700_000 });
    await interval({ metadata: 700_000, smallFile: 700_000 });
    expect(migration.status().smallFileRoomBytes).toBeGreaterThan(0);
    // Beyond what may begin now, small files wait; metadata does not.
    const begun: string[] = [];
    const run = (kind: RequestClass, name: string) =>
      scheduler.run(kind, 50_000, async () => void begun.push(name));
    const waiting = [1, 2, 3].map((n) => run('smallFile', `s${n}`));
    await run('metadata', 'm');
    expect(begun).toContain('m');
    expect(begun.length).toBeLessThan(4);
    clock.ms += 10 * SECOND;
    scheduler.allow(undefined);
    await Promise.all(waiting);
    await interval({ smallFile: 700_000 });
    await interval({ smallFile: 700_000 });
    expect(migration.status().smallFileRoomBytes).toBe(0);
    await Promise.all([1, 2, 3, 4].map((n) => run('smallFile', `late-${n}`)));
  });

  it('leaves small files so many bytes a millisecond as are left of an interval', async () => {
    const { interval, migration, scheduler } = await migrationOf({ intervalMs: 500 });
    const allow = vi.spyOn(scheduler, 'allow');
    for (let n = 0; n < 2; n += 1) await interval({ metadata: 350_000, smallFile: 350_000 });
    const { smallFileRoomBytes } = migration.status();
    expect(smallFileRoomBytes).toBeGreaterThan(0);
    expect(allow).toHaveBeenLastCalledWith(smallFileRoomBytes / 500);
  });

  it('leaves small files their share, however much of it there is', async () => {
    const { interval, migration } = await migrationOf({ smallFileShare: 0.3 });
    for (let n = 0; n < 5; n += 1) await interval({ metadata: 2e6, smallFile: 1e5 });
    expect(migration.status().smallFileRoomBytes).toBeCloseTo(0.3e6);
  });
});

describe('load that is too much', () => {
  const HOT = ['00/00/a', '00/00/b', '00/00/c'];

  type FindRoom = Awaited<ReturnType<typeof migrationOf>>['findRoom'];

  async function overloaded(options: TierOptions, prepare: (find: FindRoom) => unknown = () => {}) {
    const setting = await migrationOf(options);
    prepare(setting.findRoom);
    for (const name of HOT) await setting.put(name, 100);
    await setting.interval({ metadata: 750_000, smallFile: 900_000 });
    for (let n = 0; n < 3; n += 1) {
      for (const name of HOT) setting.read(name, 300);
      await setting.interval({ metadata: 750_000, smallFile: 900_000 });
      await setting.settled();
    }
    return setting;
  }

  it('goes to a metadata server that has room, the rest to the group for the rest', async () => {
    const groups = { moveTo: OTHER_GROUP, shareWith: ['group3'] };
    const { findRoom, records, opened, folder } = await overloaded(groups, (find) =>
      find.mockResolvedValueOnce({ group: 'group3', roomBytes: 400_000 }),
    );
    await until(() => records.counts(Place.remote).files === 3);
    const at = HOT.map((name) => records.find(name)!.remote!.split('/')[0]).sort();
    expect(at).toEqual([OTHER_GROUP, OTHER_GROUP, 'group3']);
    expect(findRoom.mock.calls[0]![0]).toBeGreaterThan(700_000);
    for (const name of HOT) {
      expect(await contentOf(opened, folder, name)).toEqual(Buffer.alloc(100, 7));
    }
  });

  it('stays where no other group takes it: a file on the same disk relieves nobody', async () => {
    const { records, moves } = await overloaded({});
    expect(records.counts(Place.row).files).toBe(3);
    expect(moves).toEqual([]);
  });
});

describe('the room of the rows', () => {
  it('is made by those that are asked for least, whatever the disk has', async () => {
    // 88 % of the disk are used by others.
    const disk = decoratedDisk(localDisk, {
      space: async () => ({ totalBytes: 100, freeBytes: 12 }),
    });
    const options = { roomBytes: 10_000, moveTo: OTHER_GROUP };
    const { put, read, interval, settled, records, clock } = await migrationOf(options, { disk });
    await put('00/00/large', 4000);
    for (const n of [1, 2, 3]) await put(`00/00/cold-${n}`, 1000);
    await interval();
    expect(records.counts().files).toBe(4);
    clock.ms += 3600 * SECOND;
    read('00/00/large', 3);
    read('00/00/cold-3');
    await interval();
    await put('00/00/new', 2000);
    await interval();
    await settled();
    await until(() => records.counts().bytes <= 8000);
    expect(records.find('00/00/cold-1')?.place === Place.remote).not.toBe(
      records.find('00/00/cold-2')?.place === Place.remote,
    );
    expect(records.find('00/00/large')).toMatchObject({ place: Place.row });
    expect(records.find('00/00/cold-3')).toMatchObject({ place: Place.row });
  });

  it('is made by the coldest of all store paths, whichever is full', async () => {
    const second = temporaryFolder();
    const options = { roomBytes: 10_000, moveTo: OTHER_GROUP };
    const { put, read, interval, settled, records, clock, opened } = await migrationOf(options, {
      further: [second],
    });
    for (const n of [1, 2, 3, 4]) await put(`00/00/warm-${n}`, 1000);
    mkdirSync(join(second, 'data', '.tmp'), { recursive: true });
    for (const n of [1, 2, 3]) await store(opened, second, `00/00/cold-${n}`, Buffer.alloc(1000));
    await interval();
    clock.ms += 3600 * SECOND;
    for (const n of [1, 2, 3, 4]) read(`00/00/warm-${n}`);
    await interval();
    for (const n of [1, 2, 3]) await put(`00/00/new-${n}`, 1000);
    await interval();
    await settled();
    const cold = opened.tiers.all[1]!.records;
    await until(() => records.counts().bytes + cold.counts().bytes <= 8000);
    expect(records.counts()).toMatchObject({ files: 7 });
    expect(cold.counts()).toMatchObject({ files: 1 });
  });

  it('is given back to the disk', async () => {
    const { put, folder, records, close, interval } = await migrationOf({ roomBytes: 1e9 });
    const size = () => statSync(join(folder, 'data', '.stevedore-files.sqlite')).size;
    for (let n = 0; n < 100; n += 1) await put(`00/00/f${n}`, 60 * KIB);
    for (let n = 0; n < 100; n += 1) records.remove(`00/00/f${n}`);
    for (let n = 0; n < 10; n += 1) await interval();
    await close();
    expect(size()).toBeLessThan(4.5e6);
  });
});

describe('the threshold', () => {
  it('sends what has outgrown its row away, and leaves here what comes home to be changed', async () => {
    const setting = await migrationOf({ moveTo: OTHER_GROUP });
    const { put, opened, folder, records, settled } = setting;
    const name = '00/00/growing';
    const append = (at: number) =>
      change(opened, folder, name, { at, bytes: Buffer.alloc(70 * KIB, 7) });
    await put(name, 100);
    await append(100);
    await until(() => records.find(name)!.place === Place.remote);
    await append(100 + 70 * KIB);
    await settled();
    expect(records.find(name)).toMatchObject({ place: Place.file });
    expect(await contentOf(opened, folder, name)).toEqual(Buffer.alloc(100 + 140 * KIB, 7));
  });

  it('sends a file that is larger away when it is read, and leaves one that has often moved', async () => {
    const { put, read, interval, settled, records, moves, migration } = await migrationOf({
      moveTo: OTHER_GROUP,
    });
    const limit = () => migration.status().thresholdBytes;
    await put('00/00/large', 60 * KIB);
    await put('00/00/moved', 60 * KIB);
    await put('00/00/last', 60 * KIB);
    records.put({ ...records.find('00/00/moved')!, moves: 20 }, Buffer.alloc(60 * KIB, 7));
    await interval();
    // The disk is busy: the threshold shrinks.
    for (let n = 0; n < 8; n += 1) await interval({ smallFile: 900_000 });
    expect(limit()).toBeLessThan(60 * KIB);
    expect(limit() * 2).toBeGreaterThan(60 * KIB);
    read('00/00/large');
    read('00/00/moved');
    read('00/00/last');
    await settled();
    // They go one after the other, in the order of the reads.
    await until(() => moves.some(({ name }) => name === '00/00/last'));
    const about = { to: OTHER_GROUP, reason: 'threshold' };
    expect(moves).toMatchObject([
      { name: '00/00/large', ...about },
      { name: '00/00/last', ...about },
    ]);
  });

  it('that load has shrunk makes no file of a new one: it is a row until it is read', async () => {
    const setting = await migrationOf({ moveTo: OTHER_GROUP, roomBytes: 200 * KIB });
    const { put, read, interval, settled, records, migration, moves } = setting;
    for (let n = 0; n < 9; n += 1) await interval({ smallFile: 900_000 });
    expect(migration.status().thresholdBytes).toBeLessThan(60 * KIB);
    await put('00/00/new', 60 * KIB);
    await settled();
    expect([records.find('00/00/new')?.place, moves]).toEqual([Place.row, []]);
    await interval();
    read('00/00/new');
    await until(() => moves.length === 1);
    expect(records.find('00/00/new')).toMatchObject({ place: Place.remote });
    // Where rows have no space left, it is a file at once.
    for (const n of [1, 2]) await put(`00/00/large-${n}`, 60 * KIB);
    await put('00/00/small', 50 * KIB);
    await put('00/00/beyond', 60 * KIB);
    expect(records.find('00/00/beyond')?.place).not.toBe(Place.row);
  });

  it('leaves files in their rows while only this disk could take them, until rows need the room', async () => {
    const options = { roomBytes: 200 * KIB };
    const { put, read, interval, settled, records, migration } = await migrationOf(options);
    const name = '00/00/read';
    await put(name, 60 * KIB);
    for (let n = 0; n < 60; n += 1) await interval({ smallFile: 900_000 });
    expect(migration.status().thresholdBytes).toBe(64 * KIB);
    read(name);
    await settled();
    expect(records.find(name)).toMatchObject({ place: Place.row });
    await put('00/00/second', 60 * KIB);
    await put('00/00/third', 60 * KIB);
    await interval();
    expect(migration.status().thresholdBytes).toBeLessThan(64 * KIB);
  });
});
