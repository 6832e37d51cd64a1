import type { GatewayInput } from '@stevedore/gateway';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Access } from '../../../gateway/dist/access/access.js';
import { HostNames } from '../../../gateway/dist/access/origins.js';
import { ConsoleFeed } from '../../../gateway/dist/console/feed.js';
import { parseGatewayOptions } from '../../../gateway/dist/options.js';
import { guarded, newKey } from '../../support/gateway/guarded.js';
import { raw, running } from '../../support/gateway/harness.js';
import { MemoryStore } from '../../support/gateway/memory-store.js';
import { started } from '../../support/gateway/tus.js';

/** A gateway that asks nobody for a key, and pages that a visitor of it may have open. */

function get(port: number, host: string, path = '/health/live') {
  return raw(port, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
}

describe('an open gateway on loopback', () => {
  test.each([
    'localhost',
    'LOCALHOST:8080',
    'app.localhost:8080',
    '127.0.0.1:8080',
    '127.8.0.1',
    '[::1]:8080',
    'files.example',
    'Files.Example.:443',
  ])('serves %s', async (host) => {
    const { port } = await running({ hostNames: new HostNames(['files.example']) });
    expect((await get(port, host)).status).toBe(200);
  });

  test.each([
    'evil.example',
    'evil.example:8080',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '10.0.0.7',
    '[fe80::1]',
    '0.0.0.0',
  ])('does not serve %s', async (host) => {
    const { port, store } = await running({ hostNames: new HostNames([]) });
    const { key } = await store.put('bytes');
    for (const path of ['/health/live', '/console/state', `/files/${key}`]) {
      const answer = await get(port, host, path);
      expect(answer.status).toBe(421);
      expect(JSON.parse(answer.body)).toMatchObject({ code: 'host_not_served' });
    }
  });

  test('serves a program that names no host, as HTTP/1.0 allows', async () => {
    const { port, store } = await running({ hostNames: new HostNames([]) });
    const { key } = await store.put('bytes');
    for (const path of ['/health/live', `/files/${key}`]) {
      expect((await raw(port, `GET ${path} HTTP/1.0\r\n\r\n`)).status).toBe(200);
    }
    const empty = 'GET /health/live HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n';
    expect((await raw(port, empty)).status).toBe(421);
  });

  test('lets a page of corsOrigins read why it is refused', async () => {
    const origin = 'https://app.example';
    const { port } = await running({ hostNames: new HostNames([]), corsOrigins: [origin] });
    const head = `GET / HTTP/1.1\r\nHost: evil.example\r\nOrigin: ${origin}\r\nConnection: close`;
    const answer = await raw(port, `${head}\r\n\r\n`);
    expect(answer.status).toBe(421);
    expect(answer.head).toContain(`access-control-allow-origin: ${origin}`);
  });

  test('is what starts without keys, and with the names that are configured', async () => {
    const start = async (more: GatewayInput) => Number(new URL((await started(more)).url).port);
    const port = await start({ hostNames: ['files.example'] });
    expect((await get(port, 'files.example')).status).toBe(200);
    expect((await get(port, 'evil.example')).status).toBe(421);
    expect((await get(await start({ host: '0.0.0.0' }), 'evil.example')).status).toBe(200);
  });

  test('says so to a name it does not know when the file is in memory, too', async () => {
    const gateway = await started();
    const port = Number(new URL(gateway.url).port);
    const { key } = await gateway.store.put('bytes');
    for (let count = 0; count < 4; count += 1) {
      expect((await get(port, 'localhost', `/files/${key}`)).status).toBe(200);
    }
    expect((await get(port, 'evil.example', `/files/${key}`)).status).toBe(421);
  });
});

describe('a page of another origin', () => {
  const foreign = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'http://localhost:1' },
    { origin: 'capacitor://127.0.0.1' },
    { 'sec-fetch-site': 'cross-site' },
  ];

  test.each(foreign)('cannot upload or delete where there are no keys: %j', async (headers) => {
    const { url, store } = await running();
    const { key } = await store.put('bytes');
    const calls = [
      fetch(`${url}/files`, { method: 'POST', body: 'x', headers }),
      fetch(`${url}/files/${key}`, { method: 'DELETE', headers }),
    ];
    for (const answer of await Promise.all(calls)) {
      expect(answer.status).toBe(403);
      expect(await answer.json()).toMatchObject({ code: 'cross_site' });
    }
    expect(store.files.size).toBe(1);
  });

  test.each([
    ['https://app.example', 'https://app.example'],
    ['https://app.example', '*'],
    ['https://app.example', 'https://App.example:443/'],
    ['capacitor://localhost', 'capacitor://localhost'],
    ['chrome-extension://dhdgffkkebhmkfjojejmpbldmpobfkfo', 'https://app.example', 403],
  ])('%s may where corsOrigins has %s', async (origin, named, status = 201) => {
    const { corsOrigins } = parseGatewayOptions({ flags: { corsOrigins: named } });
    const headers = { origin, 'sec-fetch-site': 'cross-site' };
    const { url } = await running({ corsOrigins, access: new Access({ corsOrigins }) });
    const answer = await fetch(`${url}/files`, { method: 'POST', body: 'x', headers });
    expect(answer.status).toBe(status);
    const allowed = answer.headers.get('access-control-allow-origin');
    expect(allowed).toBe(status === 403 ? null : named === '*' ? '*' : origin);
  });

  test('may with a key', async () => {
    const { key, text } = newKey();
    const { url } = await guarded([key]);
    const headers = { origin: 'https://evil.example', authorization: `Bearer ${text}` };
    const answer = await fetch(`${url}/files`, { method: 'POST', body: 'x', headers });
    expect(answer.status).toBe(201);
  });

  test("is not the gateway's own, also where a proxy names the port", async () => {
    const { port } = await running({ hostNames: new HostNames(['files.example.com']) });
    const ask = async (host: string, origin: string) => {
      const head = `POST /files HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${origin}\r\n`;
      return (await raw(port, `${head}Content-Length: 1\r\nConnection: close\r\n\r\nx`)).status;
    };
    expect(await ask('files.example.com:443', 'https://files.example.com')).toBe(201);
    expect(await ask('files.example.com:443', 'http://files.example.com')).toBe(403);
  });

  test("is not the gateway's own, nor a program that names no origin", async () => {
    const { url } = await running();
    const own = { origin: url, 'sec-fetch-site': 'same-origin' };
    for (const headers of [own, {}, { 'sec-fetch-site': 'none' }]) {
      const answer = await fetch(`${url}/files`, { method: 'POST', body: 'x', headers });
      expect(answer.status).toBe(201);
    }
  });
});

describe('ids of files', () => {
  const fileId = 'group1/M00/3F/A2/wKgAAWl2Y2SAAAAABAAAAHqsT7I.jpg';
  const key = 'AaIDETU_PbKiBd9aHGZeqQ';

  async function stateOf(showsIds: boolean): Promise<string> {
    const store = new MemoryStore();
    const feed = new ConsoleFeed({ store, version: '1', embedded: false, showsIds });
    feed.start();
    onTestFinished(() => feed.close());
    store.emit('trunk', {
      kind: 'whole',
      taskId: key,
      fileId,
      files: 1,
      bytes: 1,
      fill: 1,
      durationMs: 1,
    });
    store.emit('error', new Error(`FastDFS no longer has ${fileId}, which is ${key}`));
    return JSON.stringify(await feed.state());
  }

  test('are in the figures of the console for holders of keys alone', async () => {
    const shown = await stateOf(true);
    expect(shown).toContain(fileId);
    const hidden = await stateOf(false);
    expect(hidden).not.toContain('wKgAAWl2Y2S');
    expect(hidden).not.toContain(key);
    expect(hidden).toContain('FastDFS no longer has');
  });

  test('delete a file where that is allowed', async () => {
    const gateway = await running();
    const { key: stored } = await gateway.store.put('bytes');
    gateway.store.byFileId.set(fileId, stored);
    const remove = () => fetch(`${gateway.url}/${fileId}`, { method: 'DELETE' });
    expect((await remove()).status).toBe(204);
    expect((await remove()).status).toBe(404);
    expect(gateway.store.files.size).toBe(0);
    const trunk = fileId.replace('.jpg', '.merged');
    const answer = await fetch(`${gateway.url}/${trunk}`, { method: 'DELETE' });
    expect(answer.status).toBe(404);
  });

  test('do not delete for whoever saw one in a URL', async () => {
    const reader = newKey({ scopes: ['read', 'write'] });
    const { url } = await guarded([reader.key]);
    const answers = [
      await fetch(`${url}/${fileId}`, { method: 'DELETE' }),
      await fetch(`${url}/${fileId}`, { method: 'DELETE', headers: { 'x-api-key': reader.text } }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([401, 403]);
    const antiLeech = { secret: 'a secret of the tests', ttlMs: 1000 };
    const leech = await running({ access: new Access({ antiLeech }) });
    expect((await fetch(`${leech.url}/${fileId}`, { method: 'DELETE' })).status).toBe(401);
    // Nor do they give the key, which needs no token.
    const either = `${leech.url}/files?id=${encodeURIComponent(fileId)}`;
    for (const method of ['GET', 'DELETE']) {
      expect((await fetch(either, { method })).status).toBe(401);
    }
  });
});

test.each([
  ['same-site', undefined],
  ['cross-origin', 'cross-origin'],
] as const)('files say %s of whose pages may show them', async (policy, resourcePolicy) => {
  const { url, store } = await running(resourcePolicy ? { resourcePolicy } : {});
  const { key } = await store.put('bytes');
  const answer = await fetch(`${url}/files/${key}`);
  expect(answer.headers.get('cross-origin-resource-policy')).toBe(policy);
});
