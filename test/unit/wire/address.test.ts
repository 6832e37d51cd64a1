import { checkAddress, isOwnAddress, makeAddress, parseAddress } from '@stevedore/wire';
import { describe, expect, it } from 'vitest';

describe('an address', () => {
  it.each([
    ['tracker', 'tracker:22122'],
    ['10.0.0.1:80', '10.0.0.1:80'],
    ['::1', '[::1]:22122'],
    ['[::1]', '[::1]:22122'],
    ['[fe80::1]:65535', '[fe80::1]:65535'],
  ])('is read from %s', (text, whole) => {
    expect(parseAddress(text, 22_122)?.text).toBe(whole);
    expect(checkAddress(text, 22_122).text).toBe(whole);
  });

  it.each(['', ':80', 'a:b', 'a:0', 'a:65536', '[a]:80', '::1:x', 'a b', 'a/b', '10.0.0.1:80:80'])(
    'is not "%s"',
    (text) => {
      expect(parseAddress(text, 22_122)).toBeUndefined();
      expect(() => checkAddress(text, 22_122)).toThrow(/host:port/);
    },
  );

  it('is made of a host and a port that can be', () => {
    expect(makeAddress('[::1]', 80)?.host).toBe('::1');
    expect(makeAddress('host', 0)).toBeUndefined();
    expect(makeAddress('ho st', 80)).toBeUndefined();
  });

  it("is one machine's own unless it stands for all", () => {
    expect(['10.0.0.1', '::1'].every(isOwnAddress)).toBe(true);
    expect(['0.0.0.0', '::', 'localhost'].some(isOwnAddress)).toBe(false);
  });
});
