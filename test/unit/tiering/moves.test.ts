import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { decoratedDisk, localDisk } from '@stevedore/disk';
import { describe, expect, it } from 'vitest';
import { Random } from '../../support/random.js';
import { temporaryFolder } from '../../support/temporary.js';
import {
  change,
  contentOf,
  killedAt,
  NAME,
  type Opened,
  OTHER_GROUP,
  OtherGroup,
  openIn,
  Place,
  Points,
  store,
  THRESHOLD,
  tierOf,
} from '../../support/tiering/harness.js';

const CONTENT = Buffer.alloc(3000, 5);
const LARGE = Buffer.alloc(2 * THRESHOLD, 6);
const METADATA = Buffer.from('a\x02b');

/** Rows are read without a wait: a loop over them would leave nobody else a turn. */
const othersTurn = () => new Promise(setImmediate);

const stored = async (opened: Opened, folder: string) => {
  await store(opened, folder, NAME, CONTENT);
  await store(opened, folder, `${NAME}-m`, METADATA);
};
const moved = (opened: Opened) => tierOf(opened).moves;

type Act = (opened: Opened, folder: string) => Promise<unknown>;
const TO_FILE: Act = (opened) => moved(opened).toFile(NAME);
const TO_GROUP: Act = (opened) => moved(opened).toGroup(NAME, OTHER_GROUP);
const HOME: Act = (opened) => moved(opened).home(NAME, THRESHOLD);
const FILE_HOME: Act = (opened) => moved(opened).home(NAME, 0);
const GROW: Act = (opened, folder) => change(opened, folder, NAME, { at: 3000, bytes: LARGE });

const GROWN = Buffer.concat([CONTENT, LARGE]);

describe('a move that is killed at any point leaves one whole copy', () => {
  it.each<[string, Act[], Act, Buffer]>([
    ['row to file', [], TO_FILE, CONTENT],
    ['file to row', [TO_FILE], HOME, CONTENT],
    ['row to another group', [], TO_GROUP, CONTENT],
    ['file to another group', [TO_FILE], TO_GROUP, CONTENT],
    ['another group to row', [TO_GROUP], HOME, CONTENT],
    ['another group to file', [TO_GROUP], FILE_HOME, CONTENT],
    ['row to file by growth', [], GROW, GROWN],
    ['another group to file by growth', [TO_GROUP], GROW, GROWN],
  ])('%s', async (_, before, act, after) => {
    for (let at = 1; ; at += 1) {
      const first = temporaryFolder();
      const remote = new OtherGroup();
      const { opened, folder, wasKilled } = await killedAt(
        first,
        at,
        remote,
        async (each) => {
          await stored(each, first);
          for (const prepare of before) await prepare(each, first);
        },
        (each) => act(each, first),
      );
      const bytes = await contentOf(opened, folder, NAME);
      const isWhole = [CONTENT, after].some((whole) => bytes?.equals(whole));
      expect(isWhole, `killed at ${at}`).toBe(true);
      if (!wasKilled) expect(bytes).toEqual(after);
      expect(await contentOf(opened, folder, `${NAME}-m`)).toEqual(METADATA);
      const record = tierOf(opened).records.find(NAME);
      expect(record?.moving ?? false).toBe(false);
      const isFile = record === undefined || record.place === Place.file;
      expect(existsSync(join(folder, 'data', NAME))).toBe(isFile);
      if (record?.place === Place.remote) expect(remote.files.has(record.remote!)).toBe(true);
      await opened.close();
      if (!wasKilled) return;
    }
  });
});

describe('a move', () => {
  it('is counted in the record, wherever it leads: Eq. 14 keeps often moved files here', async () => {
    const folder = temporaryFolder();
    const opened = await openIn(folder, { remote: new OtherGroup() });
    await stored(opened, folder);
    const moves = () => tierOf(opened).records.find(NAME)?.moves;
    expect(moves()).toBe(0);
    for (const [count, move] of [TO_GROUP, HOME, TO_GROUP].entries()) {
      await move(opened, folder);
      expect(moves()).toBe(count + 1);
    }
    await opened.close();
  });

  it('is revoked by a change whenever that comes, and the change is made', async () => {
    for (const move of [TO_FILE, TO_GROUP]) {
      const outcomes = new Set<unknown>();
      for (let at = 1; at < 30; at += 1) {
        const folder = temporaryFolder();
        const remote = new OtherGroup();
        const points = new Points();
        const opened = await openIn(folder, { remote, disk: points.over(localDisk) });
        await stored(opened, folder);
        let changed: Promise<void> | undefined;
        const begun = points.passed + at;
        const watched = points.pass.bind(points);
        points.pass = () => {
          watched();
          if (points.passed !== begun || changed) return;
          changed = change(opened, folder, NAME, { at: 0, bytes: Buffer.from('new') });
        };
        remote.onCall = () => points.pass();
        outcomes.add(await move(opened, folder));
        await changed;
        if (changed) {
          const bytes = await contentOf(opened, folder, NAME);
          expect(bytes?.subarray(0, 4)).toEqual(Buffer.from('new\x05'));
        }
        await opened.close();
        // Every point has been tried.
        if (!changed) break;
      }
      expect(outcomes).toContain('revoked');
    }
  });

  it('makes the directory of a file whose name never had one, and leaves nothing where it fails', async () => {
    const folder = temporaryFolder();
    const opened = await openIn(folder);
    await stored(opened, folder);
    expect(existsSync(join(folder, 'data', '00'))).toBe(false);
    expect(await moved(opened).toFile(NAME)).toBe('moved');
    expect(await contentOf(opened, folder, NAME)).toEqual(CONTENT);
    await opened.close();

    const other = temporaryFolder();
    const disk = decoratedDisk(localDisk, {
      rename: () => Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' })),
    });
    const failing = await openIn(other, { disk });
    await stored(failing, other);
    await expect(moved(failing).toFile(NAME)).rejects.toThrow('full');
    expect(readdirSync(join(other, 'data', '.tmp'))).toEqual([]);
    expect(tierOf(failing).records.find(NAME)).toMatchObject({ place: Place.row, moving: false });
    expect(await contentOf(failing, other, NAME)).toEqual(CONTENT);
    await failing.close();
  });

  it('does not carry a damaged row on', async () => {
    const folder = temporaryFolder();
    const remote = new OtherGroup();
    const opened = await openIn(folder, { remote });
    await stored(opened, folder);
    const { records } = tierOf(opened);
    records.put({ ...records.find(NAME)!, crc32: 1 }, CONTENT);
    await expect(TO_FILE(opened, folder)).rejects.toThrow('damaged');
    await expect(TO_GROUP(opened, folder)).rejects.toThrow('damaged');
    expect(remote.files.size).toBe(0);
    await opened.close();
  });

  it('is refused while the file is open to be changed, and where there is nothing to move', async () => {
    const folder = temporaryFolder();
    const opened = await openIn(folder);
    expect(await moved(opened).toFile(NAME)).toBe('refused');
    expect(await moved(opened).home(NAME, THRESHOLD)).toBe('refused');
    await stored(opened, folder);
    expect(await moved(opened).home(NAME, THRESHOLD)).toBe('refused');
    expect(await moved(opened).toGroup(NAME, OTHER_GROUP)).toBe('refused');
    const file = await opened.files.openToChange(join(folder, 'data', NAME));
    expect(await moved(opened).toFile(NAME)).toBe('refused');
    await file.close();
    expect(await moved(opened).toFile(NAME)).toBe('moved');
    await opened.close();
  });

  it('fails no read, write or deletion: many moves under load', {
    timeout: 180_000,
  }, async () => {
    const folder = temporaryFolder();
    const remote = new OtherGroup();
    const opened = await openIn(folder, { remote });
    const names = Array.from({ length: 20 }, (_, index) => `00/00/f${index}`);
    const versions = new Map<string, number>();
    const body = (version: number) => Buffer.alloc(1000 + version, version % 256);
    for (const name of names) {
      versions.set(name, 0);
      await store(opened, folder, name, body(0));
    }
    let moves = 0;
    let reads = 0;
    const MOVES = 60;
    const mover = async (seed: number) => {
      const random = new Random(seed);
      while (moves < MOVES) {
        const name = random.pick(names);
        const tier = tierOf(opened);
        const isRow = tier.records.find(name)?.place === Place.row;
        const out = random.below(2) === 0 ? tier.moves.toFile : tier.moves.toGroup;
        const outcome = isRow
          ? await out.call(tier.moves, name, OTHER_GROUP)
          : await tier.moves.home(name, THRESHOLD);
        if (outcome === 'moved') moves += 1;
        await othersTurn();
      }
    };
    const reader = async (seed: number) => {
      const random = new Random(seed);
      while (moves < MOVES) {
        const name = random.pick(names);
        const before = versions.get(name)!;
        const bytes = (await contentOf(opened, folder, name))!;
        reads += 1;
        await othersTurn();
        const version = bytes.length - 1000;
        expect(version).toBeGreaterThanOrEqual(before);
        expect(bytes).toEqual(body(version));
      }
    };
    const writer = async () => {
      const random = new Random(9);
      while (moves < MOVES) {
        const name = random.pick(names);
        const version = versions.get(name)! + 1;
        await store(opened, folder, name, body(version));
        versions.set(name, version);
      }
    };
    await Promise.all([mover(1), mover(2), reader(3), reader(4), writer()]);
    expect(reads).toBeGreaterThan(0);
    for (const name of names) {
      expect(await contentOf(opened, folder, name)).toEqual(body(versions.get(name)!));
    }
    await opened.close();
  });
});
