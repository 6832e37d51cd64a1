import { expect, test } from 'vitest';
import {
  chooseJoin,
  isThin,
  MAX_THIN_TRUNKS,
  shareOf,
} from '../../../packages/staging/dist/merge/joining.js';

const MIB = 2 ** 20;
const FULL = { bytes: 64 * MIB, files: 65_535 };
const MINUTES_A_WEEK = 7 * 24 * 60;

test('few thin trunks are left alone until they fill one', () => {
  const thin = Array.from({ length: MAX_THIN_TRUNKS }, (_, id) => ({ id, share: 0.01 }));
  expect(chooseJoin(thin, 0.2)).toEqual([]);
  expect(chooseJoin(thin, 0.9)).toHaveLength(11);
});

test('the largest trunks are joined into a full one: little is left over', () => {
  const thin = [0.4, 0.01, 0.6, 0.3, 0.05].map((share, id) => ({ id, share }));
  const chosen = chooseJoin(thin, 0);
  expect(chosen.map(({ share }) => share)).toEqual([0.3, 0.4, 0.6]);
});

test('too many thin ones: the smallest are joined, not one that is larger than all of them', () => {
  const small = Array.from({ length: MAX_THIN_TRUNKS }, (_, id) => ({ id, share: 0.001 }));
  const chosen = chooseJoin([{ id: 99, share: 0.5 }, ...small], 0);
  expect(chosen).toEqual(small);
});

test('a trunk is full by its bytes or by its files, and when there was enough to choose from', () => {
  expect(isThin(0.89, 0.5)).toBe(true);
  expect(isThin(0.91, 0.91)).toBe(false);
  expect(isThin(0.6, 1.2)).toBe(false);
  expect(shareOf({ bytes: MIB, files: 65_000 }, FULL)).toBeGreaterThan(0.99);
});

interface Site {
  /** Bytes that come in the minute. */
  readonly bytesIn: (minute: number) => number;
}

/** A week of a site, a decision a minute; files are small beside a trunk, so fits are exact. */
function week({ bytesIn }: Site) {
  let thin: { id: number; share: number }[] = [];
  let [nextId, full, uploaded, written, mostThin] = [0, 0, 0, 0, 0];
  const add = (share: number) => {
    written += share;
    if (isThin(share, share)) thin.push({ id: nextId++, share });
    else full += 1;
  };
  const pack = (share: number) => {
    let left = share;
    for (; left >= 1; left -= 1) add(1);
    if (left > 1e-9) add(left);
  };
  for (let minute = 0; minute < MINUTES_A_WEEK; minute += 1) {
    const share = bytesIn(minute) / FULL.bytes;
    uploaded += share;
    pack(share);
    const chosen = new Set(chooseJoin(thin, 0));
    thin = thin.filter((trunk) => !chosen.has(trunk));
    if (chosen.size > 0) pack([...chosen].reduce((sum, trunk) => sum + trunk.share, 0));
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
