import { expect, test } from 'vitest';
import { AccessedFiles, RowHeat } from '../../packages/tiering/dist/migration/interval.js';
import type { Tiers } from '../../packages/tiering/dist/tiers/tiers.js';

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
  const tiers = { locate: (path: string) => ({ tier: { records }, name: path }) };
  const heat = new RowHeat();
  const interval = (accesses: Readonly<Record<string, number>>) => {
    const accessed = new AccessedFiles(tiers as unknown as Tiers);
    for (const [path, count] of Object.entries(accesses)) {
      for (let left = count; left > 0; left -= 1) accessed.add(path, 100, 1000, false);
    }
    finds = 0;
    heat.ended(accessed, 1000);
    return finds;
  };
  return { heats, interval };
}

test('an interval records the heat of 200 rows; the others follow with all their accesses', () => {
  const { heats, interval } = rows();
  const many = Object.fromEntries(Array.from({ length: 450 }, (_, at) => [`row ${at}`, 1]));
  expect([interval(many), heats.size]).toEqual([200, 200]);
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
