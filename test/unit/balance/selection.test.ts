import {
  type AccessedFile,
  chooseTarget,
  efficiency,
  migrationProfit,
  type ServerLoad,
  selectByProfit,
  splitByRoom,
} from '@stevedore/balance';
import { SeededRandom } from '@stevedore/bench/seeded-random';
import { describe, expect, test } from 'vitest';

const RUNS = 300;

function anyFiles(random: SeededRandom): AccessedFile[] {
  return Array.from({ length: random.below(40) }, (_, index) => ({
    id: `file-${index}`,
    sizeBytes: random.below(1000) * random.below(100),
    loadBytes: random.next() < 0.1 ? 0 : random.below(100_000),
  }));
}

function total(files: readonly AccessedFile[]): number {
  return files.reduce((sum, { loadBytes }) => sum + loadBytes, 0);
}

describe('selection', () => {
  const files = [
    { id: 'big', sizeBytes: 1000, loadBytes: 500 },
    { id: 'hot', sizeBytes: 10, loadBytes: 100 },
    { id: 'cold', sizeBytes: 10, loadBytes: 0 },
    { id: 'warm', sizeBytes: 100, loadBytes: 200 },
  ];

  test('takes files by load over size until the load is reached', () => {
    expect(selectByProfit(files, 150, 10).files.map(({ id }) => id)).toEqual(['hot', 'warm']);
    expect(selectByProfit(files, 0, 10).files).toEqual([]);
    expect(selectByProfit(files, 1e9, 2).files.map(({ id }) => id)).toEqual(['hot', 'warm']);
    expect(selectByProfit(files, 1e9, 10).totalLoadBytes).toBe(800);
  });

  test('stops where the load is reached to the byte, and goes by id where profits are equal', () => {
    const [a, b, c] = ['a', 'b', 'c'].map((id) => ({ id, sizeBytes: 10, loadBytes: 100 }));
    const orders = [
      [a!, b!, c!],
      [c!, b!, a!],
      [b!, c!, a!],
    ];
    for (const order of orders) {
      expect(selectByProfit(order, 1e9, 10).files).toEqual([a, b, c]);
      expect(selectByProfit(order, 200, 10).files).toEqual([a, b]);
      expect(splitByRoom(order, 100)).toEqual({ toTarget: [a], rest: [b, c] });
    }
  });

  test('a split gives the target what has most load', () => {
    const least = { id: 'a', sizeBytes: 1, loadBytes: 10 };
    const most = { id: 'b', sizeBytes: 1, loadBytes: 60 };
    const middle = { id: 'c', sizeBytes: 1, loadBytes: 50 };
    const split = splitByRoom([least, most, middle], 60);
    expect(split).toEqual({ toTarget: [most], rest: [middle, least] });
  });

  test('reaches ML, or N, or exhausts the list; and takes no file that was not needed', () => {
    for (let seed = 1; seed <= RUNS; seed += 1) {
      const random = new SeededRandom(seed);
      const accessed = anyFiles(random);
      const wanted = random.next() * 500_000;
      const most = 1 + random.below(30);
      const { files: chosen, totalLoadBytes } = selectByProfit(accessed, wanted, most);
      const loaded = accessed.filter(({ loadBytes }) => loadBytes > 0).length;
      expect(totalLoadBytes >= wanted || chosen.length === most || chosen.length === loaded).toBe(
        true,
      );
      expect(totalLoadBytes).toBe(total(chosen));
      expect(new Set(chosen).size).toBe(chosen.length);
      if (chosen.length > 0) expect(total(chosen.slice(0, -1))).toBeLessThan(wanted);
      const least = Math.min(...chosen.map(migrationProfit));
      for (const left of accessed.filter((file) => !chosen.includes(file))) {
        if (left.loadBytes > 0) expect(migrationProfit(left)).toBeLessThanOrEqual(least);
      }
    }
  });

  test('a split loses no load and does not overfill the target', () => {
    for (let seed = 1; seed <= RUNS; seed += 1) {
      const random = new SeededRandom(seed);
      const accessed = anyFiles(random);
      const room = random.next() * 1e6;
      const { toTarget, rest } = splitByRoom(accessed, room);
      expect(total(toTarget) + total(rest)).toBe(total(accessed));
      expect(toTarget.length + rest.length).toBe(accessed.length);
      expect(total(toTarget)).toBeLessThanOrEqual(room);
      for (const left of rest) expect(total(toTarget) + left.loadBytes).toBeGreaterThan(room);
    }
  });
});

describe('targets', () => {
  const server = (id: string, used: number): ServerLoad => ({
    id,
    metadataBytes: used,
    smallFileBytes: 0,
    capacityBytes: 100,
    efficiencyMark: 0.9,
  });

  test('the tightest fit among those that can take it all, else the one with most room', () => {
    const servers = [server('a', 10), server('b', 40), server('c', 70)];
    expect(chooseTarget(45, servers)?.id).toBe('b');
    expect(chooseTarget(15, servers)?.id).toBe('c');
    const most = chooseTarget(500, servers);
    expect(most?.id).toBe('a');
    expect(most?.roomBytes).toBeCloseTo(80);
  });

  test('a load that fits to the byte fits, and ids decide between equals', () => {
    const whole = (id: string, used: number) => ({ ...server(id, used), efficiencyMark: 1 });
    expect(chooseTarget(60, [whole('a', 10), whole('b', 40)])).toEqual({ id: 'b', roomBytes: 60 });
    for (const ids of [
      ['a', 'b', 'c'],
      ['c', 'b', 'a'],
    ]) {
      const equals = ids.map((id) => whole(id, 40));
      expect(chooseTarget(20, equals)).toEqual({ id: 'a', roomBytes: 20 });
      expect(chooseTarget(90, [whole('d', 80), ...equals])).toEqual({ id: 'a', roomBytes: 60 });
    }
  });

  test('no server at its mark, and none that would pass it', () => {
    expect(chooseTarget(5, [server('a', 90)])).toBeUndefined();
    for (let seed = 1; seed <= RUNS; seed += 1) {
      const random = new SeededRandom(seed);
      const servers = Array.from({ length: 1 + random.below(8) }, (_, index) => ({
        id: `s${index}`,
        metadataBytes: random.next() * 100,
        smallFileBytes: random.next() * 100,
        capacityBytes: 50 + random.next() * 150,
        efficiencyMark: random.next(),
      }));
      const load = random.next() * 100;
      const chosen = chooseTarget(load, servers);
      if (!chosen) continue;
      const target = servers.find(({ id }) => id === chosen.id)!;
      expect(chosen.roomBytes).toBeGreaterThan(0);
      expect(chosen.roomBytes).toBeLessThanOrEqual(load);
      const after = { ...target, smallFileBytes: target.smallFileBytes + chosen.roomBytes };
      const mark = target.efficiencyMark + 1e-9;
      expect(efficiency(after, target.capacityBytes)).toBeLessThanOrEqual(mark);
    }
  });
});
