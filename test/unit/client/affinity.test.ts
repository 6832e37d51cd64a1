import { type AffinityRequest, byForm, byPage, byPathPrefix, firstOf } from '@stevedore/client';
import { groupOf } from '@stevedore/client/connect/internal';
import { describe, expect, test } from 'vitest';

function request(parts: Partial<AffinityRequest> = {}): AffinityRequest {
  return { url: '/upload', headers: {}, ...parts };
}

function from(referer: string | readonly string[]): AffinityRequest {
  return request({ headers: { referer } });
}

describe('the group of an upload', () => {
  test('is the page it came from, whatever the query and the fragment', () => {
    const page = byPage();
    const group = page(from('https://shop.example/item/7?view=2#top'));
    expect(group).toBe('page shop.example/item/7');
    expect(page(from('https://shop.example/item/7'))).toBe(group);
    expect(page(from(['https://shop.example/item/7', 'https://other.example/']))).toBe(group);
    expect(page(from('https://shop.example/item/8'))).not.toBe(group);
    expect(page(from('https://shop.example:8443/item/7'))).not.toBe(group);
  });

  test('tells pages apart by their query if asked to', () => {
    const page = byPage({ query: true });
    expect(page(from('https://a.example/p?id=1'))).toBe('page a.example/p?id=1');
    expect(page(from('https://a.example/p?id=2'))).toBe('page a.example/p?id=2');
  });

  test.each(['', 'no address', 'javascript:alert(1)', '//a/b', 'about:blank'])(
    'is none for the page "%s"',
    (referer) => {
      expect(groupOf(byPage(), from(referer))).toBeUndefined();
      expect(groupOf(byPage(), request())).toBeUndefined();
    },
  );

  test('is the form', () => {
    expect(byForm()(request({ form: 'f-1' }))).toBe('form f-1');
    expect(byForm()(request())).toBeUndefined();
    expect(byForm()(request({ form: '' }))).toBeUndefined();
  });

  test('is the beginning of the path', () => {
    const prefix = byPathPrefix(2);
    expect(prefix(request({ url: '/albums/7/photos?x=1' }))).toBe('path /albums/7');
    expect(prefix(request({ url: '/albums//7/' }))).toBe('path /albums/7');
    expect(prefix(request({ url: '/albums' }))).toBeUndefined();
    expect(() => byPathPrefix(0)).toThrow(RangeError);
  });

  test('is that of the first function that gives one', () => {
    const either = firstOf(byForm(), byPage(), () => 'rest');
    expect(either(request({ form: 'f', headers: { referer: 'http://a/' } }))).toBe('form f');
    expect(either(from('http://a.example/b'))).toBe('page a.example/b');
    expect(either(request())).toBe('rest');
  });

  test('is none when the function fails or gives something else', () => {
    const failing = (): string => {
      throw new Error('a mistake of the application');
    };
    expect(groupOf(failing, request())).toBeUndefined();
    expect(groupOf(() => '', request())).toBeUndefined();
    expect(groupOf(() => 7 as unknown as string, request())).toBeUndefined();
    expect(firstOf(failing, byForm())(request({ form: 'f' }))).toBe('form f');
  });

  test('is never too long to be stored, and the same for the same long text', () => {
    const long = (length: number) => groupOf(() => 'ü'.repeat(length), request())!;
    expect(Buffer.byteLength(long(100_000))).toBeLessThanOrEqual(255);
    expect(long(1000)).toBe(long(1000));
    expect(long(1000)).not.toBe(long(1001));
    expect(long(127)).toBe('ü'.repeat(127));
  });
});
