import { describe, expect, test } from 'vitest';
import { type Running, raw, running } from '../../support/gateway/harness.js';

const BODY = '0123456789';

async function stored(
  gateway: Running,
  { body = BODY as string | Buffer, type = 'text/plain', name = 'a.txt' } = {},
): Promise<string> {
  const { key } = await gateway.store.put(body, { type, name });
  return `${gateway.url}/files/${key}`;
}

/** The answer to a request for a file of a new gateway. */
const got = async (headers: Record<string, string>, about: Parameters<typeof stored>[1] = {}) =>
  fetch(await stored(await running(), about), { headers });

describe('a stored file', () => {
  test('is served with what caches and browsers need to know', async () => {
    const response = await got({});
    expect(response.status).toBe(200);
    expect(await response.text()).toBe(BODY);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/plain',
      'content-length': '10',
      'content-disposition': 'inline; filename="a.txt"',
      'accept-ranges': 'bytes',
      'cache-control': 'public, max-age=31536000, immutable',
      'last-modified': 'Fri, 02 Jan 2026 03:04:05 GMT',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'",
      'cross-origin-resource-policy': 'same-site',
      etag: expect.stringMatching(/^"[^"]+"$/),
    });
  });

  test('is served under a readable name too', async () => {
    const gateway = await running();
    const url = await stored(gateway);
    for (const name of ['holiday.jpg', 'a%20b', '..%2f..%2fx', 'x'.repeat(3000)]) {
      expect(await (await fetch(`${url}/${name}`)).text()).toBe(BODY);
    }
  });

  test('answers HEAD like GET, without its bytes', async () => {
    const gateway = await running();
    const url = new URL(await stored(gateway));
    for (const path of [url.pathname, `${url.pathname}/a.txt`]) {
      const answer = await raw(
        gateway.port,
        `HEAD ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
      );
      expect(answer.status).toBe(200);
      expect(answer.head).toMatch(/^content-length: 10$/m);
      expect(answer.head).toMatch(/^content-type: text\/plain$/m);
      expect(answer.body).toBe('');
    }
  });

  test('is an attachment when `?download` is there', async () => {
    const gateway = await running();
    const url = await stored(gateway, { name: 'Übersicht "1".txt' });
    for (const query of ['download', 'download=1', 'x=y&download=']) {
      const { headers } = await fetch(`${url}?${query}`);
      expect(headers.get('content-disposition')).toBe(
        `attachment; filename="_bersicht _1_.txt"; filename*=UTF-8''%C3%9Cbersicht%20%221%22.txt`,
      );
    }
  });

  test.each([
    ['bytes=0-3', '0123', 'bytes 0-3/10'],
    ['bytes=4-', '456789', 'bytes 4-9/10'],
    ['bytes=4-9223372036854775807', '456789', 'bytes 4-9/10'],
    ['bytes=-99999999999999999999', BODY, 'bytes 0-9/10'],
    ['bytes=-3', '789', 'bytes 7-9/10'],
    ['bytes=-100', BODY, 'bytes 0-9/10'],
    ['bytes=5-100', '56789', 'bytes 5-9/10'],
    ['bytes=9-9', '9', 'bytes 9-9/10'],
    ['Bytes=0-0', '0', 'bytes 0-0/10'],
  ])('answers Range: %s with 206', async (range, text, contentRange) => {
    const response = await got({ range });
    expect(response.status).toBe(206);
    expect(await response.text()).toBe(text);
    expect(response.headers.get('content-range')).toBe(contentRange);
    expect(response.headers.get('content-length')).toBe(String(text.length));
  });

  test.each(['bytes=10-', 'bytes=10-20', 'bytes=-0', `bytes=${'9'.repeat(400)}-`])(
    'answers Range: %s with 416',
    async (range) => {
      const response = await got({ range });
      expect(response.status).toBe(416);
      expect(response.headers.get('content-range')).toBe('bytes */10');
      expect(await response.json()).toMatchObject({ code: 'range_not_satisfiable' });
    },
  );

  test.each(['bytes=0-1,3-4', 'bytes=0-0,', `bytes=${'0-,'.repeat(500)}0-`])(
    'sends the whole file, once, to who asks for several ranges: %s',
    async (range) => {
      const response = await got({ range });
      expect(response.status).toBe(200);
      expect(await response.text()).toBe(BODY);
    },
  );

  test('has no ranges for HEAD', async () => {
    const gateway = await running();
    const response = await fetch(await stored(gateway), {
      method: 'HEAD',
      headers: { range: 'bytes=0-1' },
    });
    expect([response.status, response.headers.get('content-length')]).toEqual([200, '10']);
  });

  test('is refused to who means another one', async () => {
    const gateway = await running();
    const url = await stored(gateway);
    const etag = (await fetch(url)).headers.get('etag') ?? '';
    const status = async (headers: Record<string, string>) =>
      (await fetch(url, { headers })).status;
    expect(await status({ 'if-match': `"x", ${etag}` })).toBe(200);
    expect(await status({ 'if-match': '*' })).toBe(200);
    expect(await status({ 'if-match': '"x"' })).toBe(412);
    expect(await status({ 'if-match': `W/${etag}` })).toBe(412);
    expect(await status({ 'if-match': '"x"', 'if-none-match': etag })).toBe(412);
    expect(await status({ 'if-match': etag, 'if-none-match': etag })).toBe(304);
    expect(await status({ 'if-unmodified-since': 'Fri, 02 Jan 2026 03:04:05 GMT' })).toBe(200);
    expect(await status({ 'if-unmodified-since': 'Fri, 02 Jan 2026 03:04:04 GMT' })).toBe(412);
    expect(await status({ 'if-unmodified-since': 'no date' })).toBe(200);
  });

  test.each(['bytes=3-1', 'bytes=-', 'bytes=a-b', 'items=0-1', 'bytes 0-1', '0-1'])(
    'ignores Range: %s',
    async (range) => {
      const response = await got({ range });
      expect(response.status).toBe(200);
      expect(await response.text()).toBe(BODY);
    },
  );

  test('honours If-Range', async () => {
    const gateway = await running();
    const url = await stored(gateway);
    const etag = (await fetch(url)).headers.get('etag') ?? '';
    const status = async (ifRange: string) =>
      (await fetch(url, { headers: { range: 'bytes=0-1', 'if-range': ifRange } })).status;
    expect(await status(etag)).toBe(206);
    expect(await status('Fri, 02 Jan 2026 03:04:05 GMT')).toBe(206);
    expect(await status('"other"')).toBe(200);
    expect(await status(`W/${etag}`)).toBe(200);
    expect(await status('Fri, 02 Jan 2026 03:04:06 GMT')).toBe(200);
  });

  test('is not sent again to who has it', async () => {
    const gateway = await running();
    const url = await stored(gateway);
    const etag = (await fetch(url)).headers.get('etag') ?? '';
    const get = (headers: Record<string, string>) => fetch(url, { headers });
    for (const tags of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const response = await get({ 'if-none-match': tags });
      expect(response.status).toBe(304);
      expect(response.headers.get('etag')).toBe(etag);
      expect(response.headers.get('cache-control')).toContain('immutable');
      expect(await response.text()).toBe('');
    }
    expect((await get({ 'if-none-match': '"x"' })).status).toBe(200);
    const since = { 'if-modified-since': 'Fri, 02 Jan 2026 03:04:05 GMT' };
    expect((await get(since)).status).toBe(304);
    expect((await get({ ...since, 'if-none-match': '"x"' })).status).toBe(200);
    expect((await get({ 'if-modified-since': 'Fri, 02 Jan 2026 03:04:04 GMT' })).status).toBe(200);
    // The two obsolete ways to write a date, and what is none: it is ignored.
    for (const date of ['Friday, 02-Jan-26 03:04:05 GMT', 'Fri Jan  2 03:04:05 2026']) {
      expect((await get({ 'if-modified-since': date })).status, date).toBe(304);
    }
    for (const date of ['nonsense', '3000', '2030-01-01', 'Fri, 02 Jan 2026 03:04:05 +0000']) {
      expect((await get({ 'if-modified-since': date })).status, date).toBe(200);
    }
    expect((await get({ 'if-unmodified-since': '1999' })).status).toBe(200);
  });

  test('of no bytes is served, and has no ranges', async () => {
    const gateway = await running();
    const url = await stored(gateway, { body: '' });
    const response = await fetch(url);
    expect([response.status, response.headers.get('content-length')]).toEqual([200, '0']);
    expect((await fetch(url, { headers: { range: 'bytes=0-' } })).status).toBe(416);
  });

  test.each([
    ['text/html', 'attachment'],
    ['TEXT/HTML; charset=utf-8', 'attachment'],
    ['image/svg+xml', 'attachment'],
    ['application/xhtml+xml', 'attachment'],
    ['text/xml', 'attachment'],
    ['text/javascript', 'attachment'],
    ['application/wasm', 'attachment'],
    ['multipart/x-mixed-replace', 'attachment'],
    ['application/octet-stream', 'attachment'],
    ['x-unknown/x-unknown', 'attachment'],
    ['image/png', 'inline'],
    ['IMAGE/JPEG', 'inline'],
    ['audio/mpeg', 'inline'],
    ['video/mp4; codecs="avc1.42E01E, mp4a.40.2"', 'inline'],
    ['application/pdf', 'inline'],
    ['text/plain; charset=utf-8', 'inline'],
    ['image/png;', 'inline'],
    ['text/plain;; a="x;y\\"z" ;b=c', 'inline'],
  ])('of type %s is served as %s', async (type, kind) => {
    const { headers } = await got({}, { type });
    expect(headers.get('content-type')).toBe(type);
    expect(headers.get('content-disposition')).toBe(`${kind}; filename="a.txt"`);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
  });

  test.each([
    '',
    'html',
    'text/html\r\nX-Evil: 1',
    'text/plain, text/html',
    'a/b c',
    'image/',
    'text/plain; a="\\',
    `text/plain${'; '.repeat(120)}=`,
  ])('whose type is %j, which is none, is served as bytes', async (type) => {
    const { headers } = await got({}, { type });
    expect(headers.get('content-type')).toBe('application/octet-stream');
    expect(headers.get('content-disposition')).toMatch(/^attachment/);
    expect(headers.get('x-evil')).toBeNull();
  });

  test.each(['a\r\nX-Evil: 1', 'a\nX-Evil: 1', 'a\0b', '\u0085\u2028x', '\ud800', '"; x="', ''])(
    'named %j puts nothing else into its headers',
    async (name) => {
      const response = await got({}, { name });
      expect(response.status).toBe(200);
      expect(response.headers.get('x-evil')).toBeNull();
      expect(response.headers.get('content-disposition')).toMatch(
        /^inline(; filename="[^"\\\r\n]*")?(; filename\*=UTF-8''[\w!#$&+.^`|~%-]+)?$/,
      );
      expect(await response.text()).toBe(BODY);
    },
  );

  test('named to be read backwards is given a name that is not', async () => {
    const response = await got({}, { name: 'a\u202efdp\u2066.exe' });
    expect(response.headers.get('content-disposition')).toBe('inline; filename="afdp.exe"');
  });

  test('that turns out to be unreadable is a problem, not half an answer', async () => {
    const gateway = await running();
    const url = await stored(gateway);
    const { StoreError } = await import('@stevedore/staging');
    gateway.store.failure = new StoreError('corrupt', '/secret/path is damaged');
    const response = await fetch(url);
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain('secret');
    expect(gateway.serverErrors).toHaveLength(1);
  });
});
