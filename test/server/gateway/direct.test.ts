import { createServer, type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { open } from '@stevedore/client';
import { signedDownload, UnsentBytes } from '@stevedore/middleware/core';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { Access } from '../../../gateway/dist/access/access.js';
import type { AppOptions } from '../../../gateway/dist/app.js';
import { Direct, type DirectOptions } from '../../../gateway/dist/http/direct.js';
import { RequestDurations } from '../../../gateway/dist/observe/durations.js';
import { makeLog } from '../../../gateway/dist/observe/log.js';
import { defaultLimits } from '../../../gateway/dist/options.js';
import { HOUR_MS, movableTime } from '../../support/fake-clock.js';
import { RawConnection, raw, running, until } from '../../support/gateway/harness.js';
import { serving as listening } from '../../support/serving.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/**
 * Answers that were given before are given again as the routes would give them: the
 * same requests to an app that keeps answers and to one that does not, over one store.
 */

const SECRET = 'a secret of sixteen bytes';
const directory = temporaryFolder(ofSuite);
const store = await open({ idMaxAge: 0, directory, mergeMaxAge: '1h' });
afterAll(() => store.close());

/** An app, and a server that asks its routes alone. */
async function both(options: Partial<AppOptions> = {}) {
  const keeping = await running({ ...options, store });
  const asking = createServer((...asked) => keeping.app.routing(...asked));
  asking.keepAliveTimeout = defaultLimits.keepAliveMs;
  return { keeping, asking: { port: Number(new URL(await listening(asking)).port) } };
}

/** Without an app; its requests have no calls. */
function directOf(options: Partial<DirectOptions>): Direct {
  return new Direct({
    files: undefined,
    requestId: () => 'id',
    durations: new RequestDurations(),
    unsent: new UnsentBytes(defaultLimits),
    hostNames: undefined,
    keepAliveMs: 5_000,
    maxBytes: 1_000,
    send() {},
    refuse() {},
    log: undefined,
    ...options,
  });
}

async function put(name = 'photo.png', body = 'the bytes of a photo', expiresAt?: Date) {
  const about = { name, type: 'image/png', ...(expiresAt === undefined ? {} : { expiresAt }) };
  return (await store.put(body, about)).key;
}

/** Without what is of one request alone, the age that counts down, and the order of headers. */
function settled(text: string): string {
  const [head = '', ...body] = text.split('\r\n\r\n');
  const [status, ...headers] = head
    .replace(/^x-request-id: .*$/im, 'x-request-id: *')
    .replace(/^Date: .*$/im, 'Date: *')
    .replace(/max-age=(\d{1,6})\b/, 'max-age=*')
    .split('\r\n');
  return [status, ...headers.sort(), '', ...body].join('\r\n');
}

/** Sends it over one connection, several times; the answer to each. */
async function ask(port: number, request: string, times = 1): Promise<string[]> {
  const connection = new RawConnection(port);
  const answers: string[] = [];
  let at = 0;
  for (let turn = 0; turn < times; turn++) {
    void connection.send(request);
    const text = await connection.sees(new RegExp(`^[\\s\\S]{${at}}[\\s\\S]*?\\r\\n\\r\\n`));
    const bodyAt = text.indexOf('\r\n\r\n', at) + 4;
    const length = /^content-length: (\d+)/im.exec(text.slice(at, bodyAt))?.[1] ?? 0;
    const end = bodyAt + Number(length);
    const whole = await connection.sees(new RegExp(`^[\\s\\S]{${end}}`));
    answers.push(whole.slice(at, end));
    at = end;
  }
  connection.socket.destroy();
  return answers;
}

const get = (path: string, headers = ''): string =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;

describe('an answer that was given before', () => {
  test('is given again, to the byte, without asking the store', async () => {
    const { keeping, asking } = await both();
    const key = await put();
    const [expected] = await ask(asking.port, get(`/files/${key}`));
    await ask(keeping.port, get(`/files/${key}`), 3);
    const looked = vi.spyOn(store, 'get');
    const reads = store.stats().reads;
    const again = await ask(keeping.port, get(`/files/${key}`), 5);
    expect(looked).not.toHaveBeenCalled();
    looked.mockRestore();
    expect(store.stats().reads).toBe(reads + 5);
    for (const answer of again) expect(settled(answer)).toBe(settled(expected!));
    const ids = again.map((answer) => /x-request-id: (\S+)/.exec(answer)?.[1]);
    expect(new Set(ids).size).toBe(5);
    const metrics = await (await fetch(`${keeping.url}/metrics`)).text();
    expect(metrics).toMatch(/count\{method="GET",route="\/files\/:key",status="200"\} 9\n/);
  });

  test.each([
    ['Range: bytes=4-8\r\n', 206],
    ['Range: bytes=900-\r\n', 416],
    ['If-None-Match: *\r\n', 304],
    ['If-Match: "other"\r\n', 412],
    ['If-Modified-Since: Sun, 06 Nov 2044 08:49:37 GMT\r\n', 304],
    ['If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n', 412],
    ['Connection: close\r\n', 200],
    ['Origin: https://app.example\r\n', 200],
    ['Content-Length: 0\r\n', 200],
    ['X-Request-Id: of-the-proxy\r\n', 200],
    ['Accept-Encoding: gzip\r\nCookie: a=b\r\n', 200],
  ])(
    'does not keep the next request from asking for something else: %j',
    async (header, status) => {
      const { keeping, asking } = await both({ corsOrigins: ['https://app.example'] });
      const key = await put();
      const path = `/files/${key}/photo.png`;
      await ask(keeping.port, get(path), 3);
      const [kept] = await ask(keeping.port, get(path, header));
      const [made] = await ask(asking.port, get(path, header));
      expect(kept).toContain(`HTTP/1.1 ${status}`);
      const boundary = /boundary=(\S+)/;
      const plain = (text: string): string =>
        settled(text).replaceAll(boundary.exec(text)?.[1] ?? '\0', '*');
      expect(plain(kept!)).toBe(plain(made!));
      if (header.startsWith('X-Request')) expect(kept).toContain('x-request-id: of-the-proxy\r\n');
    },
  );

  test('differs by method, by HTTP version, by query and by connection', async () => {
    const { keeping, asking } = await both();
    const key = await put('ünï "code".png');
    const path = `/files/${key}`;
    for (const each of [path, `${path}?download`]) await ask(keeping.port, get(each), 3);
    for (const request of [
      `HEAD ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
      `GET ${path} HTTP/1.0\r\n\r\n`,
      `GET ${path}?download HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
      `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
      `GET ${path} HTTP/1.1\r\nConnection: close\r\n\r\n`,
    ]) {
      const kept = await raw(keeping.port, request);
      const made = await raw(asking.port, request);
      expect(settled(kept.head)).toBe(settled(made.head));
      expect(kept.body).toBe(made.body);
    }
    const [shown] = await ask(keeping.port, get(path));
    const [saved] = await ask(keeping.port, get(`${path}?download`));
    expect(shown).toContain('content-disposition: inline;');
    expect(saved).toContain('content-disposition: attachment;');
  });

  test('ends with its file: deleted, or at its time', async () => {
    const later = movableTime();
    const { keeping } = await both();
    const gone = await put();
    const request = get(`/files/${gone}`);
    expect((await ask(keeping.port, request, 4)).at(-1)).toContain('200 OK');
    await fetch(`${keeping.url}/files/${gone}`, { method: 'DELETE' });
    expect((await ask(keeping.port, request))[0]).toContain('404 Not Found');

    const ending = await put('short.png', 'short', new Date(Date.now() + HOUR_MS));
    expect((await ask(keeping.port, get(`/files/${ending}`), 4)).at(-1)).toContain('200 OK');
    later(HOUR_MS);
    expect((await ask(keeping.port, get(`/files/${ending}`)))[0]).toContain('404 Not Found');
  });

  test('ends with the URL that was signed, and is no answer to another', async () => {
    const access = new Access({ urlSecrets: [SECRET] });
    const { keeping, asking } = await both({ access });
    const key = await put();
    const path = signedDownload(SECRET, key, new Date(Date.now() + 60_000));
    const kept = (await ask(keeping.port, get(path), 4)).at(-1)!;
    const [made] = await ask(asking.port, get(path));
    expect(settled(kept)).toBe(settled(made!));
    expect(kept).toMatch(/cache-control: private, max-age=[45]\d, immutable/);
    for (const other of [
      `/files/${key}`,
      path.replace(/signature=./, (all) => (all.endsWith('A') ? 'signature=B' : 'signature=A')),
      `${path}&download`,
    ]) {
      expect((await ask(keeping.port, get(other)))[0]).toMatch(/^HTTP\/1\.1 40[13] /);
    }
    const wrongKey = get(path, 'Authorization: Bearer nothing\r\n');
    const [withKey] = await ask(asking.port, wrongKey);
    expect(settled((await ask(keeping.port, wrongKey))[0]!)).toBe(settled(withKey!));
  });

  test('leaves the stream of a body that nobody reads as it is', async () => {
    const { keeping } = await both();
    const requests: IncomingMessage[] = [];
    keeping.app.server.on('request', (request) => requests.push(request));
    const path = `/files/${await put()}`;
    const answers = await ask(keeping.port, get(path), 6);
    expect(new Set(answers.map(settled)).size).toBe(1);
    expect(requests.map(({ readableEnded }) => readableEnded)).toEqual(Array(6).fill(false));
  });

  test('comes in its turn where requests are sent ahead of answers', async () => {
    const { keeping } = await both();
    const [first, second] = [await put('a.png', 'first'), await put('b.png', 'second')];
    for (const key of [first, second]) await ask(keeping.port, get(`/files/${key}`), 3);
    const connection = new RawConnection(keeping.port);
    const order = [first, 'A'.repeat(22), second, first];
    void connection.send(order.map((key) => get(`/files/${key}`)).join(''));
    const text = await connection.sees(/first[\s\S]*not_found[\s\S]*second[\s\S]*first$/);
    expect(text.match(/HTTP\/1\.1 \d{3}/g)).toEqual(
      ['200', '404', '200', '200'].map((status) => `HTTP/1.1 ${status}`),
    );
  });
});

describe('what is kept', () => {
  async function serving() {
    let now = Date.parse('2026-01-02T03:04:05.900Z');
    const file = {
      key: 'k',
      bytes: Buffer.from('the bytes'),
      expiresAt: Number.POSITIVE_INFINITY,
    };
    const kept = new Map([['k', file]]);
    const answers = directOf({
      files: {
        maxBytes: 0,
        get: (key) => kept.get(key),
        has: (key) => kept.has(key),
        isCurrent: (one) => kept.get('k') === one,
        served: () => {},
      },
      now: () => now,
    });
    const server = createServer((request, response) => {
      if (answers.take(request, response)) return;
      answers.keep(request, {
        key: 'k',
        known: {},
        route: '/:key',
        content: file.bytes,
        headers: { 'content-length': '9', 'x-request-id': 'other', 'cache-control': 'no' },
        cacheControl: (at) => `at ${at}`,
        until: Date.parse('2026-01-02T03:04:10Z'),
      });
      response.end('the route');
    });
    const port = Number(new URL(await listening(server)).port);
    return {
      file,
      kept,
      answers,
      at: (time: string) => {
        now = Date.parse(time);
      },
      ask: async () => (await ask(port, get('/x')))[0]!,
    };
  }

  test('has the age of the second in which it is sent, until the permission ends', async () => {
    const { ask: asked, at } = await serving();
    expect(await asked()).toContain('the route');
    expect(await asked()).toBe(
      'HTTP/1.1 200 OK\r\ncontent-length: 9\r\ncache-control: at 1767323045900\r\n' +
        'Date: Fri, 02 Jan 2026 03:04:05 GMT\r\nConnection: keep-alive\r\n' +
        'Keep-Alive: timeout=5\r\nx-request-id: id\r\n\r\nthe bytes',
    );
    at('2026-01-02T03:04:06.100Z');
    expect(await asked()).toContain('cache-control: at 1767323046100\r\n');
    at('2026-01-02T03:04:10.001Z');
    expect(await asked()).toContain('the route');
  });

  test('is given up with its file, for another of the same key, and at the end', async () => {
    const { ask: asked, file, kept, answers } = await serving();
    await asked();
    expect(await asked()).toContain('the bytes');
    kept.set('k', { ...file, bytes: Buffer.from('the bytes') });
    expect(await asked()).toContain('the route');
    kept.delete('k');
    expect(await asked()).toContain('the route');
    answers.close();
    expect(await asked()).toContain('the route');
  });

  test('takes a twentieth of the memory for files, from 8 to 32 MiB', () => {
    const mebibyte = 2 ** 20;
    const value = 'x'.repeat(mebibyte);
    /** How many answers of a MiB are left of forty. */
    const left = (maxBytes: number): number => {
      const file = { key: 'k', bytes: Buffer.from('x'), expiresAt: Number.POSITIVE_INFINITY };
      const isCurrent = vi.fn(() => true);
      const files = { maxBytes, get: () => file, has: () => true, isCurrent, served: () => {} };
      const answers = directOf({ files, now: () => 0 });
      const asked = Array.from({ length: 40 }, (_, index) => {
        const about = { method: 'GET', url: `/${index}`, httpVersion: '1.1' };
        return { ...about, rawHeaders: ['Host', 'x'] } as IncomingMessage;
      });
      const answer = { key: 'k', known: {}, route: '/:key', content: file.bytes, until: 1 };
      const full = { ...answer, headers: { value }, cacheControl: undefined };
      for (const request of asked) answers.keep(request, full);
      const response = { shouldKeepAlive: false } as ServerResponse;
      // The first request of a second gets the file, the next one looks at it.
      for (const request of [...asked, ...asked]) answers.take(request, response);
      return isCurrent.mock.calls.length;
    };
    expect([0, 160, 400, 10_000].map((size) => left(size * mebibyte))).toEqual([7, 7, 19, 31]);
  });
});

describe('the log', () => {
  interface Line {
    readonly [name: string]: unknown;
  }

  /** An app that logs each request. */
  async function logging(options: Partial<AppOptions> = {}) {
    const lines: Line[] = [];
    const log = makeLog('info', 'json', { write: (line) => void lines.push(JSON.parse(line)) });
    return { lines, ...(await both({ ...options, log })) };
  }

  /** Without what is of one request alone. */
  const shape = ({ requestId, time, ms, ...rest }: Line): Line => ({
    ...rest,
    measured: typeof ms,
    named: typeof requestId,
    at: typeof time,
  });

  test('has a line for each request past the framework, as for those of the routes', async () => {
    const { lines, keeping, asking } = await logging({ trustProxy: ['loopback'] });
    const key = await put();
    const behind = 'X-Forwarded-For: 203.0.113.9, 127.0.0.1\r\nX-Request-Id: of-the-proxy\r\n';
    const post =
      'POST /files HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n' +
      `${behind}\r\nhello`;
    const missing = `/files/${'A'.repeat(22)}`;
    const looked = vi.spyOn(store, 'get');
    const requests = [post, get(`/files/${key}`, behind), get(missing, behind)];
    for (const request of requests) await ask(asking.port, request);
    await until(() => lines.length === 3);
    const [uploaded, read, refused] = lines.splice(0);
    expect(read).toMatchObject({
      level: 'info',
      method: 'GET',
      url: `/files/${key.slice(0, 8)}***`,
      status: 200,
      client: '203.0.113.9',
      requestId: 'of-the-proxy',
      msg: 'request',
    });
    expect(refused).toMatchObject({ status: 404 });
    const before = looked.mock.calls.length;
    for (const request of requests) await ask(keeping.port, request);
    await ask(keeping.port, get(`/files/${key}`, behind), 3);
    expect(looked.mock.calls.length).toBe(before + 2);
    looked.mockRestore();
    await until(() => lines.length === 6);
    expect(lines.map(shape)).toEqual(
      [uploaded, read, refused, read, read, read].map((line) => shape(line!)),
    );
  });
});

test('where Node writes a head of its own, every request goes to its route', async () => {
  const end = ServerResponse.prototype.end;
  const other = vi.spyOn(ServerResponse.prototype, 'end');
  other.mockImplementationOnce(function (this: ServerResponse, ...rest: unknown[]) {
    this.socket?.write('a head of its own');
    return end.apply(this, rest as never);
  });
  const { keeping } = await both();
  const key = await put();
  const looked = vi.spyOn(store, 'get');
  await ask(keeping.port, get(`/files/${key}`), 3);
  expect(looked).toHaveBeenCalledTimes(3);
  vi.restoreAllMocks();
});

describe('an answer whose bytes are in memory', () => {
  /** A file of so many bytes, and a server that names each request. */
  async function serving(bytes: number) {
    const file = {
      key: 'k',
      bytes: Buffer.alloc(bytes, 'of the file '),
      expiresAt: Number.POSITIVE_INFINITY,
    };
    const text = file.bytes.toString('latin1');
    let count = 0;
    const seen = { finished: 0, asked: 0, atTheRoute: 0, observed: 0 };
    const durations = new RequestDurations();
    const observe = () => {
      seen.observed += 1;
    };
    vi.spyOn(durations, 'series').mockReturnValue({ observe } as never);
    const answers = directOf({
      files: {
        maxBytes: 0,
        get: () => file,
        has: () => true,
        isCurrent: () => true,
        served: () => {},
      },
      requestId: ({ headers }) => {
        count += 1;
        return String(headers['x-request-id'] ?? `id-${count}`);
      },
      durations,
    });
    const server = createServer((request, response) => {
      if (answers.take(request, response)) return;
      seen.atTheRoute += 1;
      const headers = { 'content-length': String(bytes), 'x-url': request.url };
      const answer = { key: 'k', known: {}, route: '/', content: file.bytes, headers };
      const until = Number.POSITIVE_INFINITY;
      answers.keep(request, { ...answer, cacheControl: undefined, until });
      response.setHeader('content-length', bytes);
      response.end(file.bytes);
    });
    const sockets = new Set<Socket>();
    // The system has not taken all of what is sent from the memory.
    const isBusy = () => [...sockets].some((socket) => socket.writableLength > 0);
    server.on('request', ({ socket }, response) => {
      seen.asked += 1;
      sockets.add(socket);
      response.on('finish', () => {
        seen.finished += 1;
      });
    });
    const port = Number(new URL(await listening(server)).port);
    return { port, text, seen, isBusy };
  }

  test('is that of its URL and its request', async () => {
    const { port, text, seen } = await serving(5_000);
    for (const url of ['/a', '/longer']) await ask(port, get(url));
    expect(seen.atTheRoute).toBe(2);
    const ids = ['short', 'i'.repeat(64), 'other'];
    for (const turn of [0, 1, 2, 3, 4, 5, 6]) {
      const url = turn % 3 === 0 ? '/longer' : '/a';
      const id = ids[turn % ids.length];
      const [answer] = await ask(port, get(url, `X-Request-Id: ${id}\r\n`));
      expect(answer).toContain(`\r\nx-url: ${url}\r\n`);
      expect(answer).toContain(`\r\nx-request-id: ${id}\r\n\r\n`);
      expect(answer!.slice(answer!.indexOf('\r\n\r\n') + 4) === text).toBe(true);
    }
    expect(seen).toMatchObject({ atTheRoute: 2, observed: 7 });
  });

  test('is whole while another client takes its time', async () => {
    const { port, text, seen, isBusy } = await serving(60_000);
    await ask(port, get('/a'));
    const slow = new RawConnection(port);
    slow.socket.pause();
    let sent = 0;
    while (!isBusy()) {
      sent += 1;
      const before = seen.asked;
      void slow.send(get('/a', `X-Request-Id: slow-${sent}\r\n`));
      await until(() => seen.asked > before && (isBusy() || seen.finished === seen.asked));
    }
    const other = await ask(port, get('/a', 'X-Request-Id: quick\r\n'), 3);
    for (const answer of other) {
      expect(answer).toContain('\r\nx-request-id: quick\r\n\r\n');
      expect(answer.endsWith(text)).toBe(true);
    }
    expect(isBusy()).toBe(true);
    slow.socket.resume();
    const all = await slow.sees(
      new RegExp(`x-request-id: slow-${sent}\r\n\r\n[^]{${text.length}}$`),
    );
    const answers = all.split('HTTP/1.1 200 OK\r\n').slice(1);
    expect(answers.length).toBe(sent);
    for (const [index, answer] of answers.entries()) {
      expect(answer).toContain(`\r\nx-request-id: slow-${index + 1}\r\n\r\n`);
      expect(answer.endsWith(`\r\n\r\n${text}`)).toBe(true);
    }
    await until(() => !isBusy());
    expect((await ask(port, get('/a')))[0]).toContain('x-request-id: id-');
    await until(() => seen.observed === sent + 4);
    expect(seen.atTheRoute).toBe(1);
  });

  test('is counted when the client goes away', async () => {
    const { port, seen, isBusy } = await serving(60_000);
    await ask(port, get('/a'));
    const slow = new RawConnection(port);
    slow.socket.pause();
    while (!isBusy()) {
      const before = seen.asked;
      void slow.send(get('/a'));
      await until(() => seen.asked > before && (isBusy() || seen.finished === seen.asked));
    }
    slow.socket.resetAndDestroy();
    await until(() => !isBusy());
    await until(() => seen.observed === seen.asked - 1);
  });
});
