import { deferred } from '@stevedore/async';
import { makeSliceId, parseFileId } from '@stevedore/protocol';
import { StoreError } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import {
  type RawAnswer,
  RawConnection,
  type Running,
  raw,
  running,
  until,
} from '../../support/gateway/harness.js';
import { MemoryStore } from '../../support/gateway/memory-store.js';

const TRUNK = 'group1/M00/00/00/wKgAAWl2Y2SAAAAABAAAAHqsT7I.merged';
const UNKNOWN_KEY = 'AAAAAAAAAAAAAAAAAAAAAA';

function sliceId(extension: string): string {
  const trunk = parseFileId(TRUNK);
  if (!trunk) throw new Error('not an id');
  return makeSliceId(trunk, { offset: 100, size: 10, crc32: 7 }, extension);
}

function request(gateway: Running, method: string, path: string, rest = ''): Promise<RawAnswer> {
  return raw(
    gateway.port,
    `${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${rest}\r\n`,
  );
}

describe('/files/:key', () => {
  test('tells about a file, more once it is merged', async () => {
    const { store, url } = await running();
    const { key } = await store.put('0123456789', { name: 'a/b', type: 'x/y', group: 'g' });
    const staged = {
      key,
      url: `/files/${key}`,
      name: 'a/b',
      size: 10,
      type: 'x/y',
      crc32: 'a684c7c6',
      state: 'staged',
      affinityGroup: 'g',
      stagedAt: '2026-01-02T03:04:05.678Z',
    };
    const info = async () => (await fetch(`${url}/files/${key}/info`)).json();
    expect(await info()).toEqual(staged);
    store.settle(key, sliceId('jpg'));
    expect(await info()).toEqual({ ...staged, state: 'merged', fileId: sliceId('jpg') });
    const head = await fetch(`${url}/files/${key}/info`, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
  });

  test('deletes a file, once', async () => {
    const { store, url } = await running();
    const { key } = await store.put('x');
    const remove = () => fetch(`${url}/files/${key}`, { method: 'DELETE' });
    const first = await remove();
    expect([first.status, await first.text()]).toEqual([204, '']);
    expect((await remove()).status).toBe(404);
    expect((await fetch(`${url}/files/${key}`)).status).toBe(404);
  });

  test.each(['', '/info', '/name.txt'])('is 404 for an unknown key%s', async (rest) => {
    const { url } = await running();
    const response = await fetch(`${url}/files/${UNKNOWN_KEY}${rest}`);
    expect(response.status).toBe(404);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(await response.json()).toEqual({
      type: 'about:blank',
      title: 'Not Found',
      status: 404,
      detail: 'There is no such file.',
      code: 'not_found',
    });
  });

  test.each([
    'x',
    'AAAAAAAAAAAAAAAAAAAAAB',
    'AAAAAAAAAAAAAAAAAAAAA',
    'AAAAAAAAAAAAAAAAAAAAAAA',
    '%2e%2e',
    'AAAAAAAAAAAAAAAAAAAA%00A',
    `${encodeURIComponent(TRUNK)}`,
    `${encodeURIComponent(sliceId('jpg'))}`,
    'A'.repeat(3000),
  ])('is 400 for what is no key: %s', async (key) => {
    const gateway = await running();
    for (const [method, rest] of [
      ['GET', ''],
      ['GET', '/info'],
      ['DELETE', ''],
    ] as const) {
      const answer = await request(gateway, method, `/files/${key}${rest}`);
      expect(answer.status).toBe(400);
      expect(JSON.parse(answer.body)).toMatchObject({ code: 'invalid_key' });
    }
    expect(gateway.store.asked).toEqual([]);
  });
});

describe('a FastDFS id', () => {
  test('of a slice serves it, typed by its extension', async () => {
    const { store, url } = await running();
    for (const [extension, type, disposition = null] of [
      ['jpg', 'image/jpeg'],
      ['html', 'text/html', 'attachment; filename="n"'],
      ['svg', 'image/svg+xml', 'attachment; filename="n"'],
      ['heif', 'image/heif'],
      ['odt', 'application/vnd.oasis.opendocument.text'],
      ['epub', 'application/epub+zip'],
      ['woff2', 'font/woff2'],
      ['7z', 'application/x-7z-compressed'],
      ['qqq', 'application/octet-stream'],
      ['', 'application/octet-stream'],
    ] as const) {
      const { key } = await store.put('0123456789', { type: 'text/plain', name: 'n' });
      store.settle(key, sliceId(extension));
      const response = await fetch(`${url}/${sliceId(extension)}`);
      expect(response.status).toBe(200);
      expect(await response.text()).toBe('0123456789');
      expect(response.headers.get('content-type')).toBe(type);
      expect(response.headers.get('content-disposition')).toBe(disposition);
      expect(response.headers.get('x-content-type-options')).toBe('nosniff');
      const head = await fetch(`${url}/${sliceId(extension)}`, { method: 'HEAD' });
      expect(head.headers.get('content-length')).toBe('10');
    }
  });

  test('is decoded once', async () => {
    const gateway = await running();
    const id = sliceId('jpg');
    const { key } = await gateway.store.put('x');
    gateway.store.settle(key, id);
    const once = id.replace('M00', '%4D00').replace('.jpg', '%2Ejpg');
    expect((await request(gateway, 'GET', `/${once}`)).status).toBe(200);
    const twice = id.replace('M00', '%254D00');
    expect((await request(gateway, 'GET', `/${twice}`)).status).toBe(404);
  });

  test('of a trunk is not served, unless that is wanted', async () => {
    const ids = [
      TRUNK,
      TRUNK.replace('.merged', '%2Emerged'),
      TRUNK.replace('.merged', '-150x150.merged'),
    ];
    const closed = await running();
    for (const id of ids) {
      expect((await request(closed, 'GET', `/${id}`)).status).toBe(404);
      expect((await request(closed, 'HEAD', `/${id}`)).status).toBe(404);
    }
    expect(closed.store.asked).toEqual([]);
    const open = await running({ serveTrunks: true });
    const { key } = await open.store.put('trunk');
    open.store.settle(key, TRUNK);
    expect((await request(open, 'GET', `/${TRUNK}`)).status).toBe(200);
  });

  test.each([
    '/group1/M00/00/00/../../../../etc/passwd',
    '/group1/M00/00/00/%2e%2e%2f%2e%2e%2fetc%2fpasswd',
    '/group1/M00/00/00/..%5C..%5Cetc',
    '/group1/M00/00/00/short.jpg',
    '/group1/M00/00/00/wKgAAWl2Y2SAAAAABAAAAHqsT7I%00.jpg',
    '/group1/M00/00/00/...........................123.jpg',
    '/group-1/M00/00/00/wKgAAWl2Y2SAAAAABAAAAHqsT7I123.jpg',
    '/group1/m00/00/00/wKgAAWl2Y2SAAAAABAAAAHqsT7I123.jpg',
    '/etc/passwd',
    '/group1/',
  ])('%s is none', async (path) => {
    const gateway = await running();
    const answer = await request(gateway, 'GET', path);
    // As the nginx module has it: a wrong id below a store path is a bad request.
    expect(answer.status).toBe(/^\/group-?1\/M00\//.test(path) ? 400 : 404);
    expect(answer.head).toMatch(/^content-type: application\/problem\+json$/m);
    expect(gateway.store.asked).toEqual([]);
  });
});

describe('health', () => {
  test('is ready as the store says', async () => {
    const { store, url } = await running();
    const ready = await fetch(`${url}/health/ready`);
    expect(ready.status).toBe(200);
    expect(await ready.json()).toEqual(store.readiness);
    store.readiness = {
      ready: false,
      accepting: true,
      trackerReachable: false,
      problems: ['no tracker answers'],
    };
    const not = await fetch(`${url}/health/ready`);
    expect(not.status).toBe(503);
    expect(await not.json()).toEqual(store.readiness);
  });
});

describe('what is not there', () => {
  test.each(['/nothing', '/files/a/b/c', '/health', '/health/other'])(
    'GET %s is 404 as problem+json',
    async (path) => {
      const { url } = await running();
      const response = await fetch(url + path);
      expect(response.status).toBe(404);
      expect(response.headers.get('content-type')).toBe('application/problem+json');
    },
  );

  test.each([
    ['PUT', '/files', 'GET, HEAD, POST, DELETE'],
    ['PUT', `/files/${UNKNOWN_KEY}`, 'GET, HEAD, DELETE'],
    ['POST', `/files/${UNKNOWN_KEY}`, 'GET, HEAD, DELETE'],
    ['OPTIONS', `/files/${UNKNOWN_KEY}`, 'GET, HEAD, DELETE'],
    ['DELETE', `/files/${UNKNOWN_KEY}/info`, 'GET, HEAD'],
    ['POST', '/health/live', 'GET, HEAD'],
    ['POST', `/${TRUNK.replace('merged', 'jpg')}`, 'GET, HEAD, DELETE'],
  ])('%s %s is 405 and says what is allowed', async (method, path, allow) => {
    const gateway = await running();
    const answer = await request(gateway, method, path);
    expect(answer.status).toBe(405);
    expect(answer.head).toContain(`\r\nallow: ${allow}\r\n`);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'method_not_allowed' });
  });

  test('a path that is no valid UTF-8 is 400', async () => {
    const gateway = await running();
    for (const path of ['/files/%zz', '/files/%ff', '/%']) {
      const answer = await request(gateway, 'GET', path);
      expect(answer.status).toBe(400);
      expect(JSON.parse(answer.body)).toMatchObject({ code: 'bad_request' });
    }
  });

  test('a refused request whose body was not read ends its connection', async () => {
    const gateway = await running();
    for (const [method, path] of [
      ['PUT', '/files'],
      ['POST', '/nothing'],
      ['DELETE', '/files/x'],
    ] as const) {
      const answer = await raw(
        gateway.port,
        `${method} ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nbegin`,
      );
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.head).toMatch(/^connection: close$/m);
    }
  });

  test('headers beyond their bounds are refused', async () => {
    const gateway = await running();
    const answer = await request(gateway, 'GET', '/health/live', `X: ${'y'.repeat(20_000)}\r\n`);
    expect(answer.status).toBe(431);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'headers_too_large' });
  });
});

describe("the store's errors", () => {
  test.each([
    ['container_full', 507, '10'],
    ['storage_unavailable', 503, '10'],
    ['disk_failed', 503, '10'],
    ['closed', 503, '5'],
    ['corrupt', 500, null],
    ['length_mismatch', 400, null],
    ['too_large', 413, null],
    ['invalid_id', 404, null],
  ] as const)('%s is answered with %i', async (code, status, retryAfter) => {
    const gateway = await running();
    const { key } = await gateway.store.put('x');
    gateway.store.failure = new StoreError(code, 'in /var/secret');
    const form = new FormData();
    form.set('f', new File(['x'], 'x'));
    const bodies = ['x', Buffer.alloc(1e6), form];
    const uploads = bodies.map((body) => fetch(`${gateway.url}/files`, { method: 'POST', body }));
    for (const response of [
      ...(await Promise.all(uploads)),
      await fetch(`${gateway.url}/files/${key}`),
    ]) {
      expect(response.status).toBe(status);
      expect(response.headers.get('retry-after')).toBe(retryAfter);
      const body = (await response.json()) as Record<string, unknown>;
      expect(body).toMatchObject({ code, status });
      if (status >= 500) expect(JSON.stringify(body)).not.toContain('secret');
    }
  });

  test('an error nobody foresaw tells nothing of the inside', async () => {
    const { store, url, serverErrors } = await running();
    store.failure = new TypeError('secret is not a function');
    const response = await fetch(`${url}/files`, { method: 'POST', body: 'x' });
    expect(response.status).toBe(500);
    const text = await response.text();
    expect(text).not.toContain('secret');
    expect(JSON.parse(text)).toMatchObject({ code: 'internal' });
    expect(serverErrors).toEqual([store.failure]);
  });
});

test('a gateway that closes finishes what is under way, and ends connections once they are idle or were opened ahead', async () => {
  const { buildApp } = await import('../../../gateway/dist/app.js');
  const store = new MemoryStore();
  const app = buildApp({ store });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const { promise, resolve: open } = deferred<void>();
  store.gate = promise;
  const ahead = new RawConnection(Number(new URL(url).port));
  const connection = new RawConnection(Number(new URL(url).port));
  await connection.send('POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx');
  await until(() => store.uploadsInFlight === 1);
  const closed = app.close();
  open();
  expect((await connection.answer()).status).toBe(201);
  await ahead.answer();
  await closed;
  await expect(fetch(`${url}/health/live`)).rejects.toThrow();
});

test('either id finds and deletes a file, and no id is a bad request', async () => {
  const { store, url } = await running();
  const { key } = await store.put('either', { name: 'a.txt' });
  store.settle(key, 'group1/M00/00/00/fwARA2sAsQeACEvMAAAAAAAAAAA527.txt');
  for (const id of [key, 'group1/M00/00/00/fwARA2sAsQeACEvMAAAAAAAAAAA527.txt']) {
    const answer = await fetch(`${url}/files?id=${encodeURIComponent(id)}`);
    expect(await answer.json()).toMatchObject({ key, name: 'a.txt' });
  }
  for (const query of ['?id=a&id=b', '?once=short', '?once=AAAAAAAAAAAAAAAAAAAAAA&within-ms=x']) {
    expect((await fetch(`${url}/files${query}`)).status).toBe(400);
  }
  const removed = await fetch(`${url}/files?id=${key}`, { method: 'DELETE' });
  expect(removed.status).toBe(204);
  expect((await fetch(`${url}/files?id=${key}`)).status).toBe(404);
});
