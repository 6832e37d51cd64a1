import { expect, test } from 'vitest';
import {
  AccessedFiles,
  coldestRows,
  LoadFigures,
  RowHeat,
} from '../../../packages/tiering/dist/migration/interval.js';
import type { Tier } from '../../../packages/tiering/dist/tiers/tier.js';
import type { Tiers } from '../../../packages/tiering/dist/tiers/tiers.js';

const namesOf = (prefix: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `${prefix} ${at}`);
const onceEach = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, 1]));

/** Rows of which an interval records the heat, and what that finds and writes. */
function rows() {
  const heats = new Map<string, number>();
  let finds = 0;
  const records = {
    find: (name: string) => {
      finds += 1;
      return name === 'gone' ? undefined : { heat: heats.get(name) ?? -100 };
    },
    setHeat: (name: string, heat: number) => void heats.set(name, heat),
  };
  const tier = { records };
  const tiers = { locate: (path: string) => (path === '' ? undefined : { tier, name: path }) };
  const heat = new RowHeat();
  const noAccesses = () => new AccessedFiles(tiers as unknown as Tiers);
  const interval = (accesses: Readonly<Record<string, number>>) => {
    const accessed = noAccesses();
    for (const [path, count] of Object.entries(accesses)) {
      for (let left = count; left > 0; left -= 1) accessed.add(path, 100, 1000, false);
    }
    finds = 0;
    heat.ended(accessed, 1000);
    return finds;
  };
  return { heats, interval, noAccesses };
}

test('an interval records the heat of 200 rows; the others follow with all their accesses', () => {
  const { heats, interval } = rows();
  expect([interval(onceEach(namesOf('row', 450))), heats.size]).toEqual([200, 200]);
  expect([interval({ 'row 449': 7 }), heats.size]).toEqual([200, 400]);
  expect([interval({}), heats.size]).toEqual([50, 450]);
  expect(interval({})).toBe(0);
  // Eight accesses at one time: three more than one, as a power of two.
  expect(heats.get('row 449')! - heats.get('row 0')!).toBeCloseTo(3);
});

test('a row that is gone is left out, and one that is hardly hotter is not written', () => {
  const { heats, interval } = rows();
  interval({ gone: 1, hot: 100 });
  expect([...heats.keys()]).toEqual(['hot']);
  const before = heats.get('hot');
  interval({ hot: 1 });
  expect(heats.get('hot')).toBe(before);
});

test('at most 10 000 rows wait for their heat, and the accesses of those are still added', () => {
  const { heats, interval } = rows();
  interval(onceEach(namesOf('old', 10_000)));
  interval({ ...onceEach(namesOf('new', 9_999)), 'old 9999': 7 });
  let left = 100;
  while (interval({}) > 0 && left > 0) left -= 1;
  // The first interval made room for 200.
  expect(heats.size).toBe(10_200);
  expect(heats.get('old 9999')! - heats.get('old 0')!).toBeCloseTo(3);
});

test('an interval notes at most 10 000 rows, and no file outside of the store paths', () => {
  const accessed = rows().noAccesses();
  expect(accessed.add('', 1, 1, false)).toBeUndefined();
  for (const name of namesOf('row', 10_000)) expect(accessed.add(name, 1, 1, false)).toBeDefined();
  expect(accessed.add('one more', 1, 1, false)).toBeUndefined();
  accessed.add('row 0', 5, 2, false);
  expect([...accessed]).toHaveLength(10_000);
  expect(accessed.find('row 0')).toMatchObject({ accesses: 2, loadBytes: 6, size: 2 });
});

test('rows that were stored in an interval are not moved for its load', () => {
  const accessed = rows().noAccesses();
  accessed.add('read', 1, 10, false);
  for (const isNew of [true, false]) accessed.add('stored, then read', 1, 10, isNew);
  for (const isNew of [false, true]) accessed.add('read, then stored', 1, 10, isNew);
  expect(accessed.movable).toEqual([{ id: 'read', sizeBytes: 10, loadBytes: 1 }]);
});

test('the coldest rows of all store paths leave, no more than the bytes need', () => {
  const tierWith = (...heats: number[]) =>
    ({
      records: {
        coldest: (_place: number, most: number) =>
          heats.map((heat) => ({ name: `of ${heat}`, size: 1000, heat })).slice(0, most),
      },
    }) as unknown as Tier;
  const tiers = [tierWith(1, 4, 5), tierWith(2, 3)];
  const coldest = (bytes: number, most: number) =>
    coldestRows(tiers, bytes, most).map(({ name }) => name);
  expect(coldest(2000, 10)).toEqual(['of 1', 'of 2']);
  expect(coldest(2001, 10)).toEqual(['of 1', 'of 2', 'of 3']);
  expect(coldest(1e6, 4)).toEqual(['of 1', 'of 2', 'of 3', 'of 4']);
  // With room left, an interval does not ask the database.
  expect(coldestRows([{} as Tier], 0, 10)).toEqual([]);
});

test('operators see the load of the last interval, the next forecast and how wrong forecasts were', () => {
  const figures = new LoadFigures();
  expect(figures.classes.metadata).toMatchObject({ servedBytes: 0, busyAnswersTotal: 0 });
  const load = (metadataBytes: number, smallFileBytes: number) => ({
    metadataBytes,
    smallFileBytes,
  });
  const served = (servedBytes: number, busyAnswers: number) => {
    const each = { ...new LoadFigures().classes.metadata, servedBytes, busyAnswers };
    return { metadata: each, smallFile: { ...each, busyAnswers: 0 } };
  };
  // Nothing was forecast for the first interval.
  figures.ended(served(10, 1), load(500, 70), load(100, 70));
  expect(figures.classes.metadata).toMatchObject({ forecastBytes: 100, meanErrorBytes: 0 });
  figures.ended(served(20, 2), load(130, 60), load(90, 60));
  figures.ended(served(30, 4), load(80, 60), load(200, 60));
  expect(figures.intervals).toBe(3);
  expect(figures.classes.metadata.meanErrorBytes).toBe(20);
  expect(figures.classes).toMatchObject({
    // 30 too little, then 10 too much.
    metadata: { servedBytes: 30, loadBytes: 80, forecastBytes: 200, busyAnswersTotal: 7 },
    smallFile: { servedBytes: 30, loadBytes: 60, meanErrorBytes: 5, busyAnswersTotal: 0 },
  });
});
