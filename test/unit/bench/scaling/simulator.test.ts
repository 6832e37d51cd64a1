import { expect, test } from 'vitest';
import { SeededRandom } from '../../../../bench/dist/harness/seeded-random.js';
import { filesForShare, shareOfRequests, Zipf } from '../../../../bench/dist/harness/zipf.js';
import { roomFor, runCache } from '../../../../bench/dist/scaling/cache-model.js';
import { type Costs, loadsOf, needsOf } from '../../../../bench/dist/scaling/deployment-model.js';
import { DEFAULT_LIMITS, limitsFrom } from '../../../../bench/dist/scaling/limits.js';

test.each([0.7, 0.9, 1, 1.1])('ranks come as often as Zipf %s says', (exponent) => {
  const files = 1_000;
  const draws = 200_000;
  const random = new SeededRandom(1);
  const zipf = new Zipf(files, exponent, () => random.next());
  const counts = new Array<number>(files + 1).fill(0);
  for (let at = 0; at < draws; at += 1) counts[zipf.next()]! += 1;
  let all = 0;
  for (let rank = 1; rank <= files; rank += 1) all += rank ** -exponent;
  for (const rank of [1, 2, 3, 10, 100]) {
    const expected = (draws * rank ** -exponent) / all;
    expect(Math.abs(counts[rank]! - expected)).toBeLessThan(5 * Math.sqrt(expected));
  }
  expect(counts[0]).toBe(0);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(draws);
});

test('the share of the most popular is the sum of their frequencies, for any number of files', () => {
  const exact = (most: number, exponent: number) => {
    let sum = 0;
    for (let rank = 1; rank <= most; rank += 1) sum += rank ** -exponent;
    return sum;
  };
  for (const exponent of [0.7, 1, 1.1]) {
    const expected = exact(5_000, exponent) / exact(100_000, exponent);
    expect(shareOfRequests(5_000, 100_000, exponent)).toBeCloseTo(expected, 6);
  }
  const many = filesForShare(0.8, 1e11, 0.9);
  expect(shareOfRequests(many, 1e11, 0.9)).toBeCloseTo(0.8, 9);
  const random = new SeededRandom(2);
  const zipf = new Zipf(1e11, 0.9, () => random.next());
  const draws = Array.from({ length: 20_000 }, () => zipf.next());
  expect(draws.filter((rank) => rank <= many).length / draws.length).toBeCloseTo(0.8, 1);
});

test('a cache hits as often with ten times the files and ten times the room', async () => {
  const run = { exponent: 0.7, warmUp: 2, counted: 2, isUploaded: false, seed: 7 };
  const small = await runCache({ ...run, files: 3_000, roomFiles: 600 });
  const large = await runCache({ ...run, files: 30_000, roomFiles: 6_000 });
  expect(Math.abs(large.yield - small.yield)).toBeLessThan(0.1);
  expect(large.yield).toBeLessThan(1);
  const room = roomFor(large.hitRatio, { files: 30_000, exponent: 0.7, yields: [large] });
  expect(room).toBeCloseTo(6_000, 3);
});

const COSTS: Costs = {
  ...{ fileMapBytesPerFile: 100, mapBytesPerFile: 200, mapRowsPerSecond: 1, meanBytes: 16_384 },
  ...{
    statementsPerTrunk: 1,
    idleStatements: 5,
    rebuildFilesPerSecond: 1e5,
  },
};

test('needs grow with files and gateways, and one gateway needs no map', () => {
  const trunks = {
    ...{ files: 6_000, bytes: 1e8, storedFiles: 5_000, stored: 20, storedBytes: 8e7, staying: 20 },
    ...{ stayingFiles: 5_000, stayingBytes: 8e7, fills: [1], thin: 0, waitingFiles: 1_000 },
    ...{ waitingBytes: 2e7, seconds: 20, errors: [] },
  };
  const needs = (files: number, gateways: number) =>
    needsOf({ files, gateways, trunks, lookupsPerSecond: 0 }, COSTS, DEFAULT_LIMITS);
  expect(needs(1e8, 1)).toMatchObject({ hasMap: false, mapBytes: 0, mapConnections: 0 });
  expect(needs(1e8, 10).mapBytes).toBe(2e10);
  expect(needs(1e9, 10).mapRowsPerSecond / needs(1e8, 10).mapRowsPerSecond).toBeCloseTo(10, 9);
  expect(needs(1e8, 100).fileMapBytes).toBe(1e8);
  expect(needs(1e9, 10).trunks / needs(1e8, 10).trunks).toBeCloseTo(10, 9);
  const [first] = loadsOf(needs(1e6, 1_000), 1_000, DEFAULT_LIMITS);
  expect(first).toMatchObject({ what: 'connections of the map', share: 40 });
});

test('a limit can be changed, and an unknown one is refused', () => {
  expect(limitsFrom('peak=5, groups=1').peak).toBe(5);
  expect(limitsFrom(undefined)).toEqual(DEFAULT_LIMITS);
  expect(() => limitsFrom('speed=1')).toThrow('there is no "speed"');
  expect(() => limitsFrom('peak=many')).toThrow('not a number over 0');
});
