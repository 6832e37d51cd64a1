import { open } from '@stevedore/client';
import { afterAll, expect, test } from 'vitest';
import { Access } from '../../../gateway/dist/access/access.js';
import type { AppOptions } from '../../../gateway/dist/app.js';
import { makeLog } from '../../../gateway/dist/observe/log.js';
import { RawConnection, raw, running } from '../../support/gateway/harness.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/**
 * Downloads past the framework are answered as their routes answer them: the same requests, each for
 * the first time, to an app that takes them and to one that does not because it logs every request.
 */

const directory = temporaryFolder(ofSuite);
const store = await open({ idMaxAge: 0, directory, mergeMaxAge: '1h', cacheSize: 0 });
afterAll(() => store.close());

async function both(options: Partial<AppOptions> = {}) {
  const log = makeLog('info', 'json', { write() {} });
  const passing = await running({ ...options, store });
  const routing = await running({ ...options, store, log });
  return [passing, routing] as const;
}

/** Without what is of one request alone, and the order of headers. */
function settled(head: string, body: string): string {
  const [status, ...headers] = head
    .replace(/^x-request-id: .*$/im, 'x-request-id: *')
    .replace(/^Date: .*$/im, 'Date: *')
    .replaceAll(/boundary=\S+/g, 'boundary=*')
    .split('\r\n');
  return [status, ...headers.sort(), '', body.replaceAll(/^--[\w-]+/gm, '--*')].join('\r\n');
}

/** An answer of a connection that stays open. */
async function kept(port: number, request: string): Promise<string> {
  const connection = new RawConnection(port);
  void connection.send(request);
  const text = await connection.sees(/\r\n\r\n/);
  const [head = ''] = text.split('\r\n\r\n', 1);
  const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0);
  const isEmpty = request.startsWith('HEAD') || head.startsWith('HTTP/1.1 304');
  const end = head.length + 4 + (isEmpty ? 0 : length);
  const whole = await connection.sees(new RegExp(`^[\\s\\S]{${end}}`));
  connection.socket.destroy();
  return settled(head, whole.slice(head.length + 4));
}

async function ended(port: number, request: string): Promise<string> {
  const { head, body } = await raw(port, request);
  return settled(head, body);
}

const put = async (name: string, body: string | Buffer, expiresAt?: Date) => {
  const about = { name, type: 'image/png', ...(expiresAt === undefined ? {} : { expiresAt }) };
  return (await store.put(body, about)).key;
};
const short = await put('ünï "code".png', 'the bytes of a photo');
const empty = await put('empty.png', '');
const long = await put('long.png', Buffer.alloc(300_000, 'long '));
const expiring = await put(
  'expiring.png',
  'soon gone',
  new Date(Date.now() + 10 * 365 * 86_400_000),
);
const deleted = await put('deleted.png', 'gone');
await store.delete(deleted);

test.each([
  `/files/${short}`,
  `/files/${short}/photo.png`,
  `/files/${short}/info`,
  `/files/${short}/%C3%BC.png`,
  `/files/${short}/%FF`,
  `/files/${short}/`,
  `/files/${short}/a/b`,
  `/files/${short}?download`,
  `/files/${empty}`,
  `/files/${long}`,
  `/files/${expiring}/expiring.png`,
  `/files/${deleted}`,
  '/files/AAAAAAAAAAAAAAAAAAAAAA',
  '/files/AAAAAAAAAAAAAAAAAAAAAB',
  '/files/short',
])('%s', async (path) => {
  const [passing, routing] = await both();
  for (const [method, headers] of [
    ['GET', ''],
    ['GET', 'Range: bytes=4-7\r\n'],
    ['GET', 'Range: bytes=0-1,4-5\r\n'],
    ['GET', 'Range: bytes=99999999-\r\n'],
    ['GET', 'If-None-Match: *\r\n'],
    ['GET', 'If-Match: "other"\r\n'],
    ['GET', 'X-Request-Id: of the proxy\r\nOrigin: https://app.example\r\n'],
    ['GET', 'Content-Length: 0\r\n'],
    ['HEAD', ''],
  ] as const) {
    const request = `${method} ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;
    expect(await kept(passing.port, request)).toBe(await kept(routing.port, request));
  }
  for (const headers of ['Host: x\r\nHost: y\r\n', 'Content-Length: 4\r\n', '']) {
    const request = `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers}\r\nbody`;
    expect(await ended(passing.port, request)).toBe(await ended(routing.port, request));
  }
  const old = `GET ${path} HTTP/1.0\r\n\r\n`;
  expect(await ended(passing.port, old)).toBe(await ended(routing.port, old));
});

test('what may not be read is refused, and errors of the server are reported', async () => {
  const access = () => new Access({ urlSecrets: ['a secret of sixteen bytes'] });
  const request = `GET /files/${short} HTTP/1.1\r\nHost: x\r\n\r\n`;
  const [passing] = await both({ access: access() });
  const [, routing] = await both({ access: access() });
  const refused = await kept(passing.port, request);
  expect(refused).toContain('HTTP/1.1 401');
  expect(refused).toBe(await kept(routing.port, request));
  const broken = { ...store, get: () => Promise.reject(new Error('out of order')) };
  const { port, serverErrors } = await running({
    store: Object.assign(Object.create(store), broken),
  });
  expect(await kept(port, request)).toContain('HTTP/1.1 500');
  expect(serverErrors).toEqual([new Error('out of order')]);
});

test('each is counted once, as one of its route, when its client has it', async () => {
  const { port, url } = await running({ store });
  const paths = [short, `${short}/a.png`, long, `${long}/a.png`, deleted];
  for (const path of paths) await kept(port, `GET /files/${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  const counts = async () =>
    (await (await fetch(`${url}/metrics`)).text())
      .split('\n')
      .filter((line) => /seconds_count\{method="GET",route="\/files/.test(line))
      .sort();
  let seen = await counts();
  // An answer is counted when the system has taken all of it, after its client may have it.
  while (seen.length < 3) seen = await counts();
  expect(seen.map((line) => line.replace(/^.*GET",/, ''))).toEqual([
    'route="/files/:key",status="200"} 2',
    'route="/files/:key",status="404"} 1',
    'route="/files/:key/:filename",status="200"} 2',
  ]);
});
