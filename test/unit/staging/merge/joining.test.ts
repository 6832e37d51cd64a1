import { expect, test } from 'vitest';
import {
  chooseJoin,
  isThin,
  latestIdAt,
  MAX_THIN_TRUNKS,
  shareOf,
} from '../../../../packages/staging/dist/merge/joining.js';

const MIB = 2 ** 20;
const FULL = { bytes: 64 * MIB, files: 65_535 };
const MINUTES_A_WEEK = 7 * 24 * 60;

function thinOf(share: number, id: number, level = 1, isOverdue = false) {
  return { id, share, level, isOverdue, oldestAt: id };
}

test('few thin trunks are left alone until they fill one', () => {
  const thin = Array.from({ length: MAX_THIN_TRUNKS }, (_, id) => thinOf(0.01, id));
  expect(chooseJoin(thin, 0.2)).toEqual([]);
  expect(chooseJoin(thin, 0.9)).toHaveLength(11);
});

test('the oldest trunks are joined into a full one, as many as it takes', () => {
  const thin = [0.4, 0.6, 0.3, 0.01].map((share, id) => thinOf(share, id)).reverse();
  const chosen = chooseJoin(thin, 0);
  expect(chosen.map(({ share }) => share)).toEqual([0.4, 0.6, 0.3]);
  // A little to choose from is enough.
  expect(chooseJoin([thinOf(0.5, 1)], 0.505)).toHaveLength(1);
});

test('too many thin ones: those whose files were written least often, of whatever size, are joined', () => {
  const once = [0.001, 0.005, 0.002, 0.01].map((share, id) => thinOf(share, id));
  const twice = Array.from({ length: MAX_THIN_TRUNKS - 3 }, (_, id) => thinOf(0.003, 9 + id, 2));
  const chosen = chooseJoin([...twice, ...once], 0);
  expect(chosen.map(({ id }) => id)).toEqual([0, 2, 1, 3]);
});

test('one that is much larger than the others of its level together is not written again', () => {
  const small = Array.from({ length: MAX_THIN_TRUNKS }, (_, id) => thinOf(0.001, id));
  expect(chooseJoin([thinOf(0.5, 99), ...small], 0)).toEqual(small);
  const ofTwoSizes = (large: number) => [
    ...Array.from({ length: MAX_THIN_TRUNKS }, (_, id) => thinOf(1 / 1024, id)),
    thinOf(large, 99),
  ];
  expect(chooseJoin(ofTwoSizes((4 * MAX_THIN_TRUNKS) / 1024), 0)).toHaveLength(20);
  expect(chooseJoin(ofTwoSizes((4 * MAX_THIN_TRUNKS + 1) / 1024), 0)).toHaveLength(19);
});

test('one of the lowest level joins those of the next', () => {
  const twice = Array.from({ length: MAX_THIN_TRUNKS }, (_, id) => thinOf(0.02, id, 2));
  const chosen = chooseJoin([...twice, thinOf(0.001, 99)], 0);
  expect(chosen).toHaveLength(MAX_THIN_TRUNKS + 1);
});

test('all are joined once a file is so old that it is to have its id', () => {
  const thin = [thinOf(0.1, 1, 2), thinOf(0.2, 2, 1, true)];
  expect(chooseJoin(thin, 0)).toEqual(thin);
});

test('a trunk is full by its bytes or by its files, and when there was enough to choose from', () => {
  expect(isThin(0.89, 0.5)).toBe(true);
  expect(isThin(0.99, 0.99)).toBe(true);
  expect(isThin(0.999, 0.9991)).toBe(false);
  expect(isThin(0.6, 1)).toBe(false);
  expect(shareOf({ bytes: 32 * MIB, files: 13_107 }, FULL)).toBe(0.5);
  expect(shareOf({ bytes: MIB, files: 13_107 }, FULL)).toBe(0.2);
});

const [SECOND, MINUTE, HOUR] = [1_000, 60_000, 3_600_000];

test.each([
  ['without joining, with its trunk', 10, 0, 10],
  ['at the first look a minute after its age limit', MINUTE, HOUR, HOUR + MINUTE],
  ['with a short limit, a look after as long again', 5 * SECOND, 10 * SECOND, 20 * SECOND],
  ['with a very short one, a second later', 10, 100, 100 + SECOND],
  ['never before it is merged', HOUR, MINUTE, HOUR],
])('a file has its id at the latest: %s', (_when, mergeMaxAge, idMaxAge, afterMs) => {
  expect(latestIdAt(1_000_000, mergeMaxAge, idMaxAge)).toBe(1_000_000 + afterMs);
});

interface Site {
  /** Bytes that come in the minute. */
  readonly bytesIn: (minute: number) => number;
}

/** A week of a site, a decision a minute; files are small beside a trunk, so fits are exact. */
function week({ bytesIn }: Site) {
  let thin: ReturnType<typeof thinOf>[] = [];
  let [nextId, full, uploaded, written, mostThin] = [0, 0, 0, 0, 0];
  const add = (share: number, level: number) => {
    written += share;
    if (isThin(share, share)) thin.push(thinOf(share, nextId++, level));
    else full += 1;
  };
  const pack = (share: number, level: number) => {
    let left = share;
    for (; left >= 1; left -= 1) add(1, level);
    if (left > 1e-9) add(left, level);
  };
  for (let minute = 0; minute < MINUTES_A_WEEK; minute += 1) {
    const share = bytesIn(minute) / FULL.bytes;
    uploaded += share;
    pack(share, 1);
    const chosen = new Set(chooseJoin(thin, 0));
    thin = thin.filter((trunk) => !chosen.has(trunk));
    if (chosen.size > 0) {
      const joined = [...chosen];
      const level = 1 + Math.max(...joined.map((trunk) => trunk.level));
      pack(
        joined.reduce((sum, trunk) => sum + trunk.share, 0),
        level,
      );
    }
    mostThin = Math.max(mostThin, thin.length);
  }
  return { files: full + thin.length, uploaded, mostThin, writes: written / uploaded };
}

const KB = 1000;
const SITES: readonly (readonly [name: string, site: Site, writes: number])[] = [
  ['one file of 20 KB in 2 s', { bytesIn: () => 30 * 20 * KB }, 3],
  ['500 files of 20 KB a second', { bytesIn: () => 60 * 500 * 20 * KB }, 1.2],
  [
    'bursts at noon, one file in 2 s else',
    { bytesIn: (minute) => (minute % 1440 < 720 || minute % 1440 >= 780 ? 30 : 6000) * 20 * KB },
    3,
  ],
  // 3,355 trunks of one file fill one: no order of joining with 19 at a time takes three writes.
  ['one file of 20 KB a minute', { bytesIn: () => 20 * KB }, 5],
];

test.each(SITES)('a week of %s leaves few files in FastDFS', (_name, site, writes) => {
  const after = week(site);
  expect(after.files).toBeLessThanOrEqual(1.1 * after.uploaded + 20);
  expect(after.mostThin).toBeLessThanOrEqual(MAX_THIN_TRUNKS);
  expect(after.writes).toBeLessThanOrEqual(writes);
});
