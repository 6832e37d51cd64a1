import { join } from 'node:path';
import { fileThreshold } from '@stevedore/balance';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { tierSettings } from '../../../packages/tiering/dist/tier-options.js';
import { until } from '../../support/storage/support.js';
import { change, OTHER_GROUP, Place, tierOf } from '../../support/tiering/harness.js';
import { KIB, migrationOf, SECOND } from '../../support/tiering/migrating.js';

/** What the end of an interval, a change of a file and an operator decide. */

const NAME = '00/00/file';
const FAST = { moveTo: OTHER_GROUP, thresholdBytes: 4096 };
const turns = async () => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
};

describe('the status', () => {
  it('is that of a storage that has done nothing', async () => {
    const { migration } = await migrationOf({ roomBytes: 10_000 });
    const none = { files: 0, bytes: 0 };
    const load = expect.objectContaining({ servedBytes: 0, forecastBytes: 0 });
    expect(migration.status()).toEqual({
      ...{ isPaused: false, isDryRun: false, isRecalling: false, migrates: true },
      ...{ queued: 0, movedBytes: 0, intervalMs: 1000, capacityBytes: 1e6 },
      moves: { moved: 0, revoked: 0, refused: 0, failed: 0 },
      ...{ thresholdBytes: 64 * KIB, usedShare: 0, roomBytes: 10_000 },
      ...{ rows: none, remote: none },
      ...{ unwantedCopies: 0, openCopies: 0, orphans: 3, intervals: 0, revokes: 0 },
      load: { metadata: load, smallFile: load },
      ...{ smallFileRoomBytes: 0, loadToMoveBytes: 0 },
    });
  });

  it('adds up the store paths, and what there is of each kind', async () => {
    const setting = await migrationOf({ roomBytes: 10_000, ...FAST });
    const { put, migration, opened, records, interval } = setting;
    for (const name of [NAME, `${NAME}-2`]) await put(name, 1000);
    await put(`${NAME}-3`, 500);
    await tierOf(opened).moves.toGroup(`${NAME}-3`, OTHER_GROUP);
    records.addUnwanted('group2/a', 0);
    records.beginCopy({ target: 'group2', size: 1, crc32: 2, sinceSeconds: 3 });
    await interval({ metadata: 1000 });
    expect(migration.status()).toMatchObject({
      ...{ rows: { files: 2, bytes: 2000 }, remote: { files: 1, bytes: 500 } },
      ...{ unwantedCopies: 1, openCopies: 1, intervals: 1, usedShare: 0.2 },
      load: { metadata: { servedBytes: 1000 }, smallFile: { servedBytes: 0 } },
    });
  });
});

describe('a file that changes', () => {
  async function changing(...given: Parameters<typeof migrationOf>) {
    const setting = await migrationOf(...given);
    const { opened, folder, records } = setting;
    const large = async () => {
      await setting.put(NAME, 100);
      await change(opened, folder, NAME, { at: 100, bytes: Buffer.alloc(5000, 7) });
    };
    const cut = (size: number) => change(opened, folder, NAME, { size });
    return { ...setting, large, cut, place: () => records.find(NAME)?.place };
  }

  it('comes home to its row once it is no larger than the threshold', async () => {
    const { large, cut, place, moves, settled } = await changing({ thresholdBytes: 4096 });
    await large();
    await cut(4097);
    await settled();
    await turns();
    expect([place(), moves]).toEqual([Place.file, []]);
    await cut(4096);
    await until(() => moves.length === 1);
    expect(place()).toBe(Place.row);
    expect(moves).toMatchObject([{ to: 'home', reason: 'shrunk', size: 4096, outcome: 'moved' }]);
    expect(moves[0]!.moves).toBeGreaterThan(0);
  });

  it('and is gone by then moves nowhere', async () => {
    const { migration, opened, moves, settled } = await changing(FAST);
    migration.cut(tierOf(opened), NAME, 1);
    await settled();
    await turns();
    expect(moves.filter(({ outcome }) => outcome === 'moved')).toEqual([]);
  });

  it('stays where it is where there are no rows any more', async () => {
    const { migration, opened, moves } = await changing(FAST, { isEnabled: false });
    migration.cut(tierOf(opened), NAME, 1);
    migration.grown(tierOf(opened), NAME, 100_000);
    await turns();
    expect([migration.status().queued, moves]).toEqual([0, []]);
  });

  it('and has outgrown its row moves on to another group, unless files are called back', async () => {
    const { large, place, migration, moves, opened } = await changing(FAST);
    await large();
    await until(() => moves.length === 1);
    expect(place()).toBe(Place.remote);
    expect(moves).toMatchObject([
      { name: NAME, to: OTHER_GROUP, reason: 'threshold', size: 5100, outcome: 'moved' },
    ]);
    migration.recall();
    migration.grown(tierOf(opened), '00/00/other', 5100);
    await turns();
    expect([migration.status().queued, moves.length]).toEqual([0, 1]);
  });
});

describe('a row that is read', () => {
  it.each([
    ['is larger than the threshold', 64 * KIB + 1, true],
    ['is as large as the threshold', 64 * KIB, false],
  ])('and %s leaves it, or not', async (_, size, leaves) => {
    const { migration, moves, folder } = await migrationOf({ moveTo: OTHER_GROUP });
    migration.accessed(join(folder, 'data', NAME), 1, size, false);
    await (leaves ? until(() => moves.length === 1) : turns());
    expect(moves.map(({ reason, to }) => [reason, to])).toEqual(
      leaves ? [['threshold', OTHER_GROUP]] : [],
    );
    if (leaves) expect(moves[0]).toMatchObject({ size, moves: 0 });
  });

  it('leaves it only beyond the threshold that its moves have raised', async () => {
    const setting = await migrationOf({ moveTo: OTHER_GROUP });
    const { migration, moves, folder, put, records, interval } = setting;
    const limit = fileThreshold(64 * KIB, 20, tierSettings({}, 'group1').parameters);
    await put(NAME, 100);
    records.put({ ...records.find(NAME)!, moves: 20 }, Buffer.alloc(100, 7));
    const accessed = async (size: number) => {
      // Neither little load nor much: the threshold stays.
      await interval({ smallFile: 500_000 });
      migration.accessed(join(folder, 'data', NAME), 1, size, false);
    };
    await accessed(limit);
    await turns();
    expect(moves).toEqual([]);
    await accessed(limit + 1);
    await until(() => moves.length === 1);
  });

  it('stays where nothing moves by itself', async () => {
    const { migration, moves, folder } = await migrationOf({ ...FAST, migrates: false });
    migration.accessed(join(folder, 'data', NAME), 1, 100_000, false);
    await turns();
    expect(moves).toEqual([]);
  });
});

it('without moves by itself an interval is counted, and decides nothing', async () => {
  const options = { ...FAST, migrates: false, roomBytes: 5_000 };
  const { migration, interval, put, moves, ownRoom, findRoom, opened, scheduler, records } =
    await migrationOf(options);
  for (let n = 0; n < 5; n += 1) await put(`${NAME}${n}`, 1000);
  const shrink = vi.spyOn(records, 'shrink');
  const allow = vi.spyOn(scheduler, 'allow');
  for (let n = 0; n < 12; n += 1) await interval({ metadata: 900_000, smallFile: 900_000 });
  await turns();
  expect(moves).toEqual([]);
  expect(migration.status()).toMatchObject({
    ...{ migrates: false, intervals: 12, thresholdBytes: 4096, usedShare: 1 },
    ...{ smallFileRoomBytes: 0, rows: { files: 5 } },
  });
  expect(opened.tiers.thresholdBytes).toBe(4096);
  expect(ownRoom.take(10)).toMatchObject({ takenBytes: 0, capacityBytes: 1 });
  expect([findRoom, shrink].map((each) => each.mock.calls)).toEqual([[], []]);
  expect(allow.mock.calls.every(([bytes]) => bytes === undefined)).toBe(true);
});

describe('the room of this server', () => {
  it('is told in bytes a second, up to its mark', async () => {
    const { ownRoom, interval } = await migrationOf({ intervalMs: 500 });
    await interval({ metadata: 100_000, smallFile: 50_000 });
    expect(ownRoom.take(0)).toEqual({
      ...{ capacityBytes: 1e6, metadataBytes: 200_000, smallFileBytes: 100_000 },
      ...{ markPerMille: 800, takenBytes: 0 },
    });
  });

  it('is none where its own rows have no room, or it has load to move', async () => {
    const full = await migrationOf({ roomBytes: 10_000 });
    // Exactly what the mark says.
    await full.put(NAME, 8_000);
    await full.interval({ metadata: 1000 });
    expect(full.ownRoom.take(10)).toMatchObject({ takenBytes: 0, metadataBytes: 1000 });
    const { ownRoom, interval, migration } = await migrationOf();
    await interval({ metadata: 750_000, smallFile: 900_000 });
    expect(migration.status().loadToMoveBytes).toBeGreaterThan(0);
    expect(ownRoom.take(10)).toMatchObject({ takenBytes: 0, markPerMille: 0 });
  });
});

describe('rows that take too much room', () => {
  it.each([
    [1000, 3],
    [2, 2],
    [0.1, 1],
  ])('at %f moves a second leave it at once, the rest later', async (movesPerSecond, count) => {
    const options = { roomBytes: 10_000, moveTo: OTHER_GROUP, movesPerSecond };
    const { put, interval, migration, moves, records } = await migrationOf(options);
    for (let n = 0; n < 10; n += 1) await put(`${NAME}${n}`, 1000);
    const shrink = vi.spyOn(records, 'shrink');
    migration.dryRun();
    await interval();
    expect(shrink).toHaveBeenCalledOnce();
    // Of ten thousand bytes, eight thousand are to be used, or as many as the mark says.
    expect(moves.length).toBeLessThanOrEqual(count);
    expect(moves.length).toBeGreaterThan(0);
    expect(moves[0]).toMatchObject({
      ...{ to: OTHER_GROUP, reason: 'space', size: 1000, usedShare: 1, outcome: 'dry-run' },
    });
    if (movesPerSecond < 3) expect(moves).toHaveLength(count);
  });

  it('leave it for files here where no other group takes them', async () => {
    const { put, interval, moves } = await migrationOf({ roomBytes: 2_000 });
    for (let n = 0; n < 2; n += 1) await put(`${NAME}${n}`, 1000);
    await interval();
    await until(() => moves.length > 0);
    expect(moves[0]).toMatchObject({ to: 'file', reason: 'space', outcome: 'moved' });
  });
});

describe('load that is to move', () => {
  async function loaded(options: Parameters<typeof migrationOf>[0] = FAST) {
    const errors: unknown[] = [];
    const setting = await migrationOf(options, { onError: (error) => errors.push(error) });
    const { put, read, interval } = setting;
    await put(NAME, 100);
    await interval({ metadata: 750_000, smallFile: 900_000 });
    const overload = async () => {
      read(NAME, 300);
      await interval({ metadata: 750_000, smallFile: 900_000 });
    };
    return { ...setting, errors, overload };
  }

  it('is logged with the numbers behind it', async () => {
    const { migration, moves, overload } = await loaded();
    migration.dryRun();
    for (let n = 0; n < 3; n += 1) await overload();
    await until(() => moves.length > 0);
    const { loadToMoveBytes } = migration.status();
    const [move] = moves.slice(-1);
    expect(move).toMatchObject({ name: NAME, to: OTHER_GROUP, reason: 'load', size: 100 });
    expect(move).toMatchObject({ loadBytes: 330_000, capacityBytes: 1e6, loadToMoveBytes });
    for (const name of ['profit', 'forecastMetadataBytes', 'forecastSmallFileBytes']) {
      expect(move![name]).toBeGreaterThan(0);
    }
  });

  it('is offered once at a time, and not where nothing is to move', async () => {
    const { findRoom, interval, overload } = await loaded();
    await interval({ metadata: 1000 });
    expect(findRoom).not.toHaveBeenCalled();
    let answer: (() => void) | undefined;
    findRoom.mockImplementation(
      () =>
        new Promise((resolve) => {
          answer = () => resolve(undefined);
        }),
    );
    for (let n = 0; n < 3; n += 1) await overload();
    expect(findRoom).toHaveBeenCalledOnce();
    answer!();
    await turns();
    await overload();
    expect(findRoom).toHaveBeenCalledTimes(2);
    answer!();
  });

  it('is offered again where that failed, which is told', async () => {
    const { findRoom, errors, overload, records } = await loaded();
    findRoom.mockRejectedValueOnce(new Error('nobody answers'));
    for (let n = 0; !findRoom.mock.calls.length && n < 9; n += 1) await overload();
    await turns();
    expect(errors).toMatchObject([{ message: 'nobody answers' }]);
    expect(records.find(NAME)).toMatchObject({ place: Place.row });
    await overload();
    await until(() => records.find(NAME)?.place === Place.remote);
    expect(errors).toHaveLength(1);
  });

  it('goes nowhere while files are called back, and home is where they go', async () => {
    const { findRoom, migration, moves, overload, records, interval, settled } = await loaded();
    for (let n = 0; n < 3; n += 1) await overload();
    await until(() => records.find(NAME)?.place === Place.remote);
    await settled();
    await turns();
    findRoom.mockClear();
    migration.recall();
    expect(migration.status().isRecalling).toBe(true);
    await interval();
    const recalls = () => moves.filter(({ reason }) => reason === 'recall');
    await until(() => recalls().length > 0);
    expect(recalls()).toMatchObject([{ name: NAME, to: 'home', outcome: 'moved' }]);
    for (let n = 0; n < 3; n += 1) await overload();
    await turns();
    expect(findRoom).not.toHaveBeenCalled();
    migration.resume();
    expect(migration.status()).toMatchObject({ isRecalling: false, isPaused: false });
    await overload();
    await until(() => records.find(NAME)?.place === Place.remote);
  });
});

describe('intervals', () => {
  it('end in their time until the storage closes, whatever one of them throws', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const errors: unknown[] = [];
    const onError = (error: unknown) => void errors.push(error);
    const { migration, opened, close } = await migrationOf({ intervalMs: 300 }, { onError });
    migration.start();
    vi.advanceTimersByTime(299);
    expect(migration.status().intervals).toBe(0);
    vi.advanceTimersByTime(1);
    expect(migration.status().intervals).toBe(1);
    const used = vi.spyOn(opened.tiers, 'usedShare', 'get').mockImplementationOnce(() => {
      throw new Error('it is damaged');
    });
    vi.advanceTimersByTime(300);
    expect([errors.length, migration.status().intervals]).toEqual([1, 1]);
    used.mockRestore();
    vi.advanceTimersByTime(300);
    expect(migration.status().intervals).toBe(2);
    const end = vi.spyOn(migration, 'endInterval');
    await close();
    vi.advanceTimersByTime(3 * SECOND);
    expect(end).not.toHaveBeenCalled();
  });

  it('end with the last question, and so does the rest', async () => {
    const { migration, findRoom, put, read, interval, scheduler } = await migrationOf(FAST);
    await put(NAME, 100);
    await interval({ metadata: 750_000, smallFile: 900_000 });
    let answer: (() => void) | undefined;
    findRoom.mockImplementation(
      () =>
        new Promise((resolve) => {
          answer = () => resolve(undefined);
        }),
    );
    for (let n = 0; n < 5 && !answer; n += 1) {
      read(NAME, 300);
      await interval({ metadata: 750_000, smallFile: 900_000 });
    }
    const close = vi.spyOn(scheduler, 'close');
    let isClosed = false;
    const closing = migration.close().then(() => {
      isClosed = true;
    });
    await turns();
    expect(isClosed).toBe(false);
    answer!();
    await closing;
    expect(close).toHaveBeenCalledOnce();
  });
});
