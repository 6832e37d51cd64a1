import { expect, test } from 'vitest';
import { composed, folded, parseTime } from '../../../packages/client/dist/list/texts.js';

test.each([
  ['2026-03-01', '2026-03-01T00:00:00.000Z'],
  ['2024-02-29', '2024-02-29T00:00:00.000Z'],
  ['2026-03-01T12:00:00Z', '2026-03-01T12:00:00.000Z'],
  ['2026-03-01t12:00:00.9996z', '2026-03-01T12:00:00.999Z'],
  ['2026-03-01T01:30:00+02:00', '2026-02-28T23:30:00.000Z'],
  ['2026-12-31T23:30:00.5-05:30', '2027-01-01T05:00:00.500Z'],
  ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
])('%s is a time', (text, expected) => {
  expect(parseTime(text)?.toISOString()).toBe(expected);
});

test.each([
  ...['', '1', '2026', '2026-3-1', '11/12/2026', '20260301', '2026-02-31', '2025-02-29'],
  ...['2026-13-01', '2026-00-10', '2026-04-31T00:00:00Z', '0001-01-01', 'Sun, 01 Mar 2026 GMT'],
  ...['2026-03-01T12:00:00', '2026-03-01T12:00Z', '2026-03-01 12:00:00Z', '2026-03-01T24:00:00Z'],
  ...['2026-03-01T12:60:00Z', '2026-03-01T12:00:61Z', '2026-03-01T12:00:00+24:00', '2026-03-01Z'],
  ...['2026-03-01T12:00:00+0200', ' 2026-03-01', '2026-03-01T12:00:00.Z', '+002026-03-01'],
])('"%s" is none', (text) => {
  expect(parseTime(text)).toBeUndefined();
});

test('names are compared whichever way their accents are written', () => {
  expect(composed('e\u0301te\u0301')).toBe('été');
  expect(folded('E\u0301TE\u0301')).toBe('été');
  // A capital that has an accent of its own, and a small letter that is one with it.
  expect(folded('J\u030c')).toBe(folded('\u01f0'));
  expect(folded('\u212b')).toBe(folded('å'));
  expect(composed('a\ud800')).toBe('a\ufffd');
});
