import { FileCache, type Placed } from '@stevedore/cache';
import { describe, expect, it } from 'vitest';
import { Frequency } from '../../../packages/cache/dist/frequency.js';
import { extentAround } from '../../../packages/cache/dist/group-load.js';
import { ReadAhead } from '../../../packages/cache/dist/read-ahead.js';
import { Random } from '../../support/random.js';

const MIB = 2 ** 20;

describe('the count of requests', () => {
  it('takes next to no file of a scan for one that is asked for again', () => {
    const frequency = new Frequency(1024);
    let again = 0;
    for (let index = 0; index < 100_000; index += 1)
      if (frequency.count(`scan/${index}`)) again += 1;
    expect(again).toBeLessThan(100_000 * 0.06);
  });

  it('is never too low within a period and seldom too high', () => {
    const random = new Random(3);
    const frequency = new Frequency(2048);
    const exact = new Map<string, number>();
    for (let step = 0; step < 8000; step += 1) {
      const id = `file-${Math.floor(1500 * random.next() ** 3)}`;
      exact.set(id, (exact.get(id) ?? 0) + 1);
      frequency.count(id);
    }
    let tooHigh = 0;
    for (const [id, count] of exact) {
      expect(frequency.estimate(id)).toBeGreaterThanOrEqual(Math.min(count, 15));
      if (frequency.estimate(id) > Math.min(count, 15) + 1) tooHigh += 1;
    }
    expect(tooHigh).toBeLessThan(exact.size * 0.1);
  });

  it('forgets what was asked for long ago', () => {
    const frequency = new Frequency(16);
    for (let again = 0; again < 12; again += 1) frequency.count('old');
    expect(frequency.estimate('old')).toBeGreaterThanOrEqual(12);
    for (let index = 0; index < 160 * 5; index += 1) frequency.count(`new-${index % 8}`);
    expect(frequency.estimate('old')).toBeLessThanOrEqual(1);
  });
});

describe('the tables of the count', () => {
  it('grow without losing a count, and say what they take', () => {
    const frequency = new Frequency(16);
    const before = frequency.byteLength;
    for (let times = 1; times <= 8; times += 1) {
      for (let again = 0; again < times; again += 1) frequency.count(`file-${times}`);
    }
    frequency.growTo(64);
    expect(frequency.byteLength).toBe(4 * before);
    for (let times = 1; times <= 8; times += 1) {
      expect(frequency.estimate(`file-${times}`)).toBeGreaterThanOrEqual(times);
    }
    const unknown = Array.from({ length: 100 }, (_, index) => `unknown-${index}`);
    expect(unknown.filter((id) => frequency.estimate(id) > 0).length).toBeLessThan(10);
    frequency.growTo(64);
    expect(frequency.byteLength).toBe(4 * before);
  });

  it('know a file from before the first requests were forgotten', () => {
    const frequency = new Frequency(16);
    for (let again = 0; again < 12; again += 1) frequency.count('old');
    for (let index = 0; index < 160; index += 1) frequency.count(`new-${index % 4}`);
    expect(frequency.count('old')).toBe(true);
  });

  it('count up to a bound', () => {
    const frequency = new Frequency(1024);
    for (let again = 0; again < 1000; again += 1) frequency.count('often');
    expect(frequency.estimate('often')).toBe(16);
  });
});

it('an extent holds the file, stays within the bound, and leaves out what is kept at its ends', () => {
  const random = new Random(5);
  for (let round = 0; round < 500; round += 1) {
    const members: Placed[] = [];
    let at = random.below(1000);
    for (let count = 1 + random.below(15); count > 0; count -= 1) {
      const size = random.below(60_000);
      members.push({ offset: at, size });
      at += size + 60 + random.below(30);
    }
    const asked = random.below(members.length);
    const kept = members.map((_, index) => index !== asked && random.next() < 0.4);
    const maxBytes = 10_000 + random.below(300_000);
    const { first, last, offset, bytes } = extentAround(
      members,
      asked,
      maxBytes,
      (index) => kept[index]!,
    );
    expect(first).toBeLessThanOrEqual(asked);
    expect(last).toBeGreaterThanOrEqual(asked);
    expect(offset).toBe(members[first]!.offset);
    expect(offset + bytes).toBe(members[last]!.offset + members[last]!.size);
    if (first < last) expect(bytes).toBeLessThanOrEqual(maxBytes);
    expect(kept[first] || kept[last]).toBe(false);
    // Nothing that is missing was left out behind, if there was room for it.
    const next = members.findIndex((_, index) => index > last && !kept[index]);
    if (next > 0) {
      const end = members[next]!.offset + members[next]!.size;
      expect(end - members[asked]!.offset).toBeGreaterThan(maxBytes);
    }
  }
});

describe('reading ahead', () => {
  const options = { minUsedShare: 0.25, maxSources: 100 };

  it('goes on while it pays and stops where it does not, but for a probe now and then', () => {
    const ahead = new ReadAhead(options);
    for (let round = 0; round < 100; round += 1) {
      ahead.noteUsed('good', 60_000);
      ahead.noteUnused('good', 40_000);
      ahead.noteUnused('bad', 100_000);
    }
    const taken = (source: string): number =>
      Array.from({ length: 160 }, () => ahead.pays(source)).filter(Boolean).length;
    expect(taken('good')).toBe(160);
    expect(taken('bad')).toBe(10);
    for (let round = 0; round < 1000; round += 1) ahead.noteUsed('bad', 100_000);
    expect(taken('bad')).toBe(160);
  });

  it('pays from the least share and the least sample on, to the byte', () => {
    const quarter = MIB / 4;
    const justPays = new ReadAhead(options);
    justPays.noteUsed('trunk', quarter);
    justPays.noteUnused('trunk', 3 * quarter);
    expect(justPays.pays('trunk')).toBe(true);
    const doesNot = new ReadAhead(options);
    doesNot.noteUsed('trunk', quarter - 1);
    doesNot.noteUnused('trunk', 3 * quarter + 1);
    expect(doesNot.pays('trunk')).toBe(false);
    const toFew = new ReadAhead(options);
    toFew.noteUnused('trunk', MIB - 1);
    expect(toFew.pays('trunk')).toBe(true);
  });

  it('favours the present: what was long ago weighs little', () => {
    const ahead = new ReadAhead(options);
    for (let round = 0; round < 1000; round += 1) ahead.noteUnused('trunk', MIB);
    expect(ahead.pays('trunk')).toBe(false);
    for (let round = 0; round < 32; round += 1) ahead.noteUsed('trunk', MIB);
    expect(ahead.pays('trunk')).toBe(true);
  });

  it('remembers so many sources, those noted last', () => {
    const ahead = new ReadAhead({ minUsedShare: 0.25, maxSources: 2 });
    ahead.noteUnused('bad', 2 * MIB);
    ahead.noteUsed('good', 20 * MIB);
    expect(ahead.pays('bad')).toBe(false);
    // The oldest is forgotten, and judged by all of them, which pay.
    ahead.noteUsed('other', MIB);
    expect(ahead.pays('bad')).toBe(true);
  });

  it('judges a source of which little is known by all of them', () => {
    const ahead = new ReadAhead(options);
    expect(ahead.pays('new')).toBe(true);
    for (let round = 0; round < 100; round += 1) ahead.noteUnused(`source-${round}`, 100_000);
    expect(Array.from({ length: 10 }, () => ahead.pays('new'))).not.toContain(true);
    expect(ahead.stats().declined).toBe(10);
  });

  it('pushes out nothing that was asked for, however much of it there is', async () => {
    const cache = new FileCache({ maxBytes: 4 * MIB, aheadShare: 0.25 });
    const asked = Array.from({ length: 250 }, (_, index) => `asked-${index}`);
    for (const id of asked) await cache.get(id, async () => Buffer.allocUnsafeSlow(10_000));
    const full = asked.filter((id) => cache.has(id)).length;
    expect(full).toBe(250);
    for (let round = 0; round < 40; round += 1) {
      await cache.get('absent', async (flight) => {
        flight.doNotKeep();
        const ids = Array.from({ length: 100 }, (_, index) => `ahead-${round}-${index}`);
        for (const id of flight.claim(ids)) flight.deliver(id, Buffer.allocUnsafeSlow(10_000), 't');
        return Buffer.alloc(1);
      });
    }
    expect(asked.filter((id) => cache.has(id)).length).toBe(full);
    const { readBytes, unusedBytes, usedBytes } = cache.stats().readAhead;
    expect(readBytes).toBe(40 * 100 * 10_000);
    expect(usedBytes).toBe(0);
    expect(unusedBytes).toBeGreaterThan(readBytes * 0.9);
  });

  it('is credited when the file is asked for, be it kept already or still on its way', async () => {
    const cache = new FileCache({ maxBytes: 4 * MIB, aheadShare: 0.25 });
    let open: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const first = cache.get('a', async (flight) => {
      expect(flight.claim(['a', 'b', 'c', 'd'])).toEqual(['b', 'c', 'd']);
      await gate;
      for (const id of ['b', 'c']) flight.deliver(id, Buffer.from(id), 'trunk');
      return Buffer.from('a');
    });
    const unexpected = async (): Promise<Buffer> => {
      throw new Error('it was on its way');
    };
    const onItsWay = cache.get('b', unexpected);
    // Claimed but never delivered: loaded by whoever waits for it.
    const forgotten = cache.get('d', async () => Buffer.from('own'));
    open();
    expect((await first)?.toString()).toBe('a');
    expect((await onItsWay)?.toString()).toBe('b');
    expect((await forgotten)?.toString()).toBe('own');
    expect((await cache.get('c', unexpected))?.toString()).toBe('c');
    expect(cache.stats().readAhead).toMatchObject({ readBytes: 2, usedBytes: 2, unusedBytes: 0 });
    expect(cache.stats().sharedLoads).toBe(2);
  });
});
