import { queryOf } from '@stevedore/middleware/core';
import { parseSize } from '@stevedore/pictures';
import { expect, test } from 'vitest';
import { askedVariant, variantMark } from '../../../packages/pictures/dist/variant.js';

test('a size is a width, a height or both', () => {
  expect(parseSize('320')).toEqual({ width: 320, height: undefined });
  expect(parseSize('x200')).toEqual({ width: undefined, height: 200 });
  expect(parseSize('640x480')).toEqual({ width: 640, height: 480 });
  for (const wrong of ['', 'x', '0', '0x5', '320x', '9999', '-1', '1.5', '320x240x1', ' 320']) {
    expect(parseSize(wrong), wrong).toBeUndefined();
  }
});

test('a URL without the parameters asks for the file itself', () => {
  expect(askedVariant(queryOf('/files/KEY'), 'image/webp')).toBeUndefined();
  expect(askedVariant(queryOf('/files/KEY?download&expires=1'), undefined)).toBeUndefined();
});

test.each([
  ['?w=320', undefined, { width: 320, fit: 'inside', format: 'jpeg', isNegotiated: true }],
  ['?w=320', 'image/avif,image/webp,*/*', { format: 'avif' }],
  ['?w=320', 'image/webp,*/*;q=0.8', { format: 'webp' }],
  ['?w=320', 'image/avif;q=0, image/webp', { format: 'webp' }],
  ['?w=320', '*/*', { format: 'jpeg' }],
  ['?w=32&h=16&fit=cover&format=png', 'image/webp', { format: 'png', isNegotiated: false }],
])('%s with Accept: %s', (query, accept, variant) => {
  expect(askedVariant(queryOf(`/files/KEY${query}`), accept)).toMatchObject(variant);
});

test.each([
  'w=0',
  'w=-1',
  'w=9000',
  'w=1e3',
  'w=320px',
  'w=3&fit=stretch',
  'w=3&format=svg',
  'w=3&fit=cover',
])('%s is a bad request', (query) => {
  expect(() => askedVariant(queryOf(`/files/KEY?${query}`), undefined)).toThrow(
    expect.objectContaining({ code: 'bad_request' }),
  );
});

test('every part of a variant, and the key, is in its mark', () => {
  const variant = { width: 320, height: 240, fit: 'cover', format: 'webp' } as const;
  const marks = [
    variantMark('A', variant),
    variantMark('B', variant),
    variantMark('A', { ...variant, width: 32 }),
    variantMark('A', { ...variant, width: undefined, height: 320 }),
    variantMark('A', { ...variant, width: 320, height: undefined }),
    variantMark('A', { ...variant, fit: 'contain' }),
    variantMark('A', { ...variant, format: 'png' }),
  ].map((mark) => mark.toString('hex'));
  expect(new Set(marks).size).toBe(marks.length);
  expect(marks[0]).toHaveLength(32);
});
