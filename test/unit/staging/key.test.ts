import { formatKey, parseKey } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { KeyMaker, timeOfKey } from '../../../packages/staging/dist/key.js';

describe('keys', () => {
  test('hold time, origin and random bits in this order', () => {
    const maker = new KeyMaker(0x1234, {
      now: () => 0x0102_0304_0506,
      randomFill: (target) => target.fill(0xee),
    });
    const key = maker.next();
    expect(key.toString('hex')).toBe('0102030405061234eeeeeeeeeeeeeeee');
    expect(formatKey(key)).toBe('AQIDBAUGEjTu7u7u7u7u7g');
    expect(timeOfKey(key)).toBe(0x0102_0304_0506);
  });

  test('no two are the same, also when the random pool is filled again', () => {
    let fills = 0;
    const maker = new KeyMaker(1, {
      now: () => 5,
      randomFill: (target) => {
        fills += 1;
        for (let at = 0; at < target.length; at += 4)
          target.writeUInt32LE(fills * 100_000 + at, at);
      },
    });
    const keys = Array.from({ length: 2000 }, () => formatKey(maker.next()));
    expect(new Set(keys).size).toBe(2000);
    expect(fills).toBe(4);
  });

  test('only the one text of a key is taken', () => {
    const text = formatKey(Buffer.alloc(16, 7));
    expect(parseKey(text)?.equals(Buffer.alloc(16, 7))).toBe(true);
    for (const wrong of [
      '',
      text.slice(1),
      `${text}A`,
      `${text.slice(0, 21)}B`,
      `../${text.slice(3)}`,
    ]) {
      expect(parseKey(wrong), wrong).toBeUndefined();
    }
  });
});
