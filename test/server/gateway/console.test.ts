import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { MigrationStatus } from '@stevedore/tiering/control';
import { expect, onTestFinished, test, vi } from 'vitest';
import { changeKeyFile, makeApiKey, readKeyFile } from '../../../gateway/dist/access/api-keys.js';
import { ConsoleFeed, type ConsoleState } from '../../../gateway/dist/console/feed.js';
import { warning } from '../../../gateway/dist/doctor/finding.js';
import { guarded } from '../../support/gateway/guarded.js';
import { running } from '../../support/gateway/harness.js';
import { MemoryStore } from '../../support/gateway/memory-store.js';
import { ROOT } from '../../support/paths.js';
import { serving } from '../../support/serving.js';
import { temporaryFolder } from '../../support/temporary.js';

const MEMBER = {
  ...{ group: 'group1', address: '10.0.0.7:23000', version: '6.12', active: true },
  ...{ freeBytes: 10 * 2 ** 20, totalBytes: 20 * 2 ** 20, lastHeartbeatAt: new Date(1_000) },
};
const TRUNK = { kind: 'trunk', fileId: 'f', files: 1, bytes: 1, fill: 1, durationMs: 1 } as const;

/** A feed for the console over a fake store; closed when the test ends. */
function fed(options: Partial<ConstructorParameters<typeof ConsoleFeed>[0]>): ConsoleFeed {
  const store = new MemoryStore();
  const feed = new ConsoleFeed({ store, version: '1', embedded: true, showsIds: true, ...options });
  feed.start();
  onTestFinished(() => feed.close());
  return feed;
}

const FOLDER = join(ROOT, 'gateway/console');
/** The gateway's address for scripts that are not served. */
const PACKAGE = pathToFileURL(`${ROOT}/gateway/`);
const read = (name: string) => readFileSync(join(FOLDER, name), 'utf8');

test('the page and all it loads come from the gateway, under a strict policy', async () => {
  const { url } = await running();
  const page = await fetch(url);
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
  const policy = page.headers.get('content-security-policy')!;
  expect(policy).toMatch(/^default-src 'none';/);
  expect(policy).not.toMatch(/unsafe|\*|https?:/);
  expect(policy).toContain("frame-ancestors 'none'");
  const html = await page.text();
  expect(html).not.toMatch(/ style=| on\w+=|<script(?![^>]* src=)|<style/);
  const loaded = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, path]) => `/${path}`);
  const imported = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.js'))
    .flatMap((name) => [...read(name).matchAll(/from '\.\/([^']+)'/g)])
    .map(([, name]) => `/console/${name}`);
  // The modules for uploads are those of their package, whose sources are served beside them.
  const library = new URL('.', import.meta.resolve('@stevedore/browser'));
  const modules = readdirSync(library).filter((name) => name.endsWith('.js'));
  const served = [...modules, 'uplot.js', 'uplot.css'].map((name) => `/console/lib/${name}`);
  const assets = new Set(
    [...loaded, ...imported, ...served].filter((path) => path.startsWith('/console/')),
  );
  const files = readdirSync(FOLDER).filter((name) => name !== 'index.html');
  const own = files.map((name) => `/console/${name}`);
  expect([...assets].sort()).toEqual([...own, ...served].sort());
  for (const path of assets) {
    const asset = await fetch(`${url}${path}`);
    expect([path, asset.status]).toEqual([path, 200]);
    expect(asset.headers.get('x-content-type-options')).toBe('nosniff');
    await asset.arrayBuffer();
    const again = { headers: { 'if-none-match': asset.headers.get('etag')! } };
    expect((await fetch(`${url}${path}`, again)).status).toBe(304);
  }
  for (const name of readdirSync(FOLDER)) {
    expect(read(name).replace('http://www.w3.org/2000/svg', '')).not.toMatch(
      /https?:|\/\/[a-z]+\./,
    );
  }
  expect((await fetch(url, { method: 'POST', body: '' })).status).toBe(405);
});

test('the scripts name only elements that the page has, and never write markup', () => {
  const ids = new Set([...read('index.html').matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!));
  const scripts = readdirSync(FOLDER).filter((name) => name.endsWith('.js'));
  const text = scripts.map(read).join('\n');
  const named = [...text.matchAll(/\bat\('([^']+)'\)/g)].map(([, id]) => id!);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((id) => !ids.has(id))).toEqual([]);
  for (const name of readdirSync(FOLDER)) {
    expect(read(name)).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/);
  }
});

test('the state has figures, merges, trouble and the cluster', async () => {
  const gateway = await running();
  gateway.store.members = [{ ...MEMBER, freeBytes: 10, lastHeartbeatAt: new Date() }];
  const trunk = { taskId: 't', fileId: 'f', files: 12, bytes: 1000, fill: 0.97, durationMs: 700 };
  gateway.store.emit('trunk', { ...trunk, kind: 'trunk' });
  for (let times = 0; times < 3; times++) gateway.store.emit('error', new Error('away'));
  gateway.store.emit('error', new Error('x'.repeat(5000)));
  const answer = await fetch(`${gateway.url}/console/state`);
  expect(answer.headers.get('cache-control')).toBe('no-store');
  const state = (await answer.json()) as ConsoleState;
  expect(state).toMatchObject({
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    embedded: false,
    ready: { ready: true },
    stats: { stagedFiles: 0 },
    attention: [{ what: 'storage 10.0.0.7:23000' }, { what: 'A background error' }],
    merges: [{ fill: 0.97, files: 12, kind: 'trunk' }],
    trouble: [{ code: 'other', message: 'away', times: 3 }, { times: 1 }],
    cluster: [{ group: 'group1', active: true }],
  });
  expect(state.trouble[1]!.message.length).toBe(500);
});

test('what is kept is bounded, and many who look ask the cluster once', async () => {
  const store = new MemoryStore();
  let now = 0;
  let asked = 0;
  const ask = store.cluster.bind(store);
  store.cluster = () => {
    asked += 1;
    return ask();
  };
  const feed = fed({ store, now: () => now });
  for (let count = 0; count < 1000; count++) {
    now += 1000;
    await feed.sample();
    store.emit('trunk', { ...TRUNK, taskId: String(count) });
    store.emit('error', new Error(String(count)));
  }
  const states = await Promise.all(Array.from({ length: 50 }, () => feed.state()));
  expect(asked).toBe(1);
  const { merges, trouble } = states[0]!;
  expect([merges.length, trouble.length]).toEqual([30, 20]);
  expect(merges.at(-1)!.taskId).toBe('999');
  const { at, trunksPerMinute, fill } = feed.history('hour');
  expect(at.at(-1)).toBe(now / 1000);
  // One a second, each of them full.
  expect([trunksPerMinute[50], fill[50]]).toEqual([60, 1]);
  await feed.state();
  expect(asked).toBe(1);
  now += 10_000;
  store.failure = new Error('away');
  expect((await feed.state()).cluster).toBeUndefined();
  expect(asked).toBe(2);
  feed.close();
  expect(store.listenerCount('trunk') + store.listenerCount('error')).toBe(0);
});

test('storages that move files say so; those that move none are asked again later', async () => {
  const store = new MemoryStore();
  const member = { ...MEMBER, lastHeartbeatAt: undefined };
  const names = ['10.0.0.1:1', '10.0.0.2:1', '10.0.0.3:1', '10.0.0.4:1'];
  store.members = names.map((address, index) => ({ ...member, address, active: index < 3 }));
  let now = 0;
  const asked: string[] = [];
  const load = { loadBytes: 1, forecastBytes: 1 };
  const status = {
    thresholdBytes: 65_536,
    capacityBytes: 10,
    load: { smallFile: load, metadata: load },
  } as unknown as MigrationStatus;
  const feed = fed({
    store,
    now: () => now,
    askMigration: async (address) => {
      asked.push(address);
      if (address === names[1]) throw new Error('away');
      return address === names[0] ? status : undefined;
    },
  });
  expect((await feed.state()).migrations).toEqual([{ storage: names[0], status }]);
  expect(asked).toEqual(names.slice(0, 3));
  now += 10_000;
  await feed.state();
  expect(asked.slice(3)).toEqual(names.slice(0, 2));
  now += 700_000;
  await feed.state();
  expect(asked.slice(5)).toEqual(names.slice(0, 3));
});

test('with API keys the figures need one, the page does not', async () => {
  const { key, text } = makeApiKey({ name: 'watcher', scopes: ['read'] }, new Date());
  const { url } = await guarded([key]);
  expect((await fetch(url)).status).toBe(200);
  expect((await fetch(`${url}/console/console.js`)).status).toBe(200);
  for (const figures of ['/console/state', '/console/history?span=day', '/metrics']) {
    expect((await fetch(`${url}${figures}`)).status).toBe(401);
    const headers = { authorization: `Bearer ${text}` };
    expect((await fetch(`${url}${figures}`, { headers })).status).toBe(200);
  }
});

test('waiting without a trunk, and an open network, need attention', async () => {
  const store = new MemoryStore();
  await store.put('waits');
  let now = 0;
  const access = warning('access', 'anyone may upload', 'set apiKeys');
  const feed = fed({ store, access, now: () => now });
  const attentionNow = async () => (await feed.state()).attention.map(({ what }) => what);
  expect(await attentionNow()).toEqual(['access']);
  now += 15 * 60_000;
  expect(await attentionNow()).toEqual(['Merging is behind', 'access']);
  store.emit('trunk', { ...TRUNK, taskId: 't' });
  expect(await attentionNow()).toEqual(['access']);
});

test('the load of metadata tiers has a history while nobody looks', async () => {
  const store = new MemoryStore();
  store.members = [MEMBER];
  let now = 0;
  let asked = 0;
  const load = { loadBytes: 10, forecastBytes: 30 };
  const status = { capacityBytes: 100, load: { smallFile: load, metadata: load } };
  const feed = fed({
    store,
    now: () => now,
    askMigration: async () => {
      asked += 1;
      return status as unknown as MigrationStatus;
    },
  });
  for (; now < 130_000; now += 5_000) await feed.sample();
  // Once a minute.
  expect(asked).toBe(3);
  expect(feed.history('hour').forecast.at(-1)).toBe(0.6);
  expect(feed.history('hour').load.at(-1)).toBe(0.2);
});

test('keys are shown to a key with the scope admin, without any secret', async () => {
  const made = [
    makeApiKey({ name: 'boss', scopes: ['admin'] }, new Date()),
    makeApiKey({ name: 'shop', scopes: ['read', 'write'], bytesPerDay: 100 }, new Date()),
  ] as const;
  const { url, path } = await guarded(made.map(({ key }) => key));
  const ask = (text: string) =>
    fetch(`${url}/console/access`, { headers: { authorization: `Bearer ${text}` } });
  expect((await fetch(`${url}/console/access`)).status).toBe(401);
  expect((await ask(made[1].text)).status).toBe(403);
  const headers = { authorization: `Bearer ${made[1].text}` };
  await fetch(`${url}/files`, { method: 'POST', body: '12345', headers });
  const text = await (await ask(made[0].text)).text();
  expect(JSON.parse(text)).toMatchObject({
    file: path,
    hidden: 0,
    keys: [
      { id: made[0].key.id, name: 'boss', scopes: ['admin'] },
      { id: made[1].key.id, bytesPerDay: 100, bytesToday: 5 },
    ],
  });
  for (const { key, text: secret } of made) {
    expect(text).not.toContain(key.hash);
    expect(text).not.toContain(secret.slice(-43));
  }
});

test('a key with the scope admin makes, limits and revokes keys, which work at once', async () => {
  const boss = makeApiKey({ name: 'boss', scopes: ['admin'] }, new Date());
  const shop = makeApiKey({ name: 'shop', scopes: ['write'] }, new Date());
  const { url, path } = await guarded([boss.key, shop.key]);
  const call = (method: string, to: string, text = boss.text) =>
    fetch(`${url}${to}`, { method, headers: { authorization: `Bearer ${text}` } });
  expect((await call('POST', '/keys?name=x', shop.text)).status).toBe(403);
  expect((await call('POST', '/keys')).status).toBe(400);
  expect((await call('POST', '/keys?name=x&scopes=all')).status).toBe(400);
  const answer = await call('POST', '/keys?name=cms&scopes=write,list&bytes-per-day=2KiB');
  expect(answer.status).toBe(201);
  const made = (await answer.json()) as { id: string; key: string };
  expect(made).toMatchObject({ name: 'cms', scopes: ['write', 'list'], bytesPerDay: 2048 });
  expect(made).not.toHaveProperty('hash');
  const upload = () =>
    fetch(`${url}/files`, {
      ...{ method: 'POST', body: '12345', headers: { 'x-api-key': made.key } },
    });
  expect((await upload()).status).toBe(201);
  expect(await (await call('PATCH', `/keys/${made.id}?bytes-per-day=3B`)).json()).toMatchObject({
    ...{ id: made.id, scopes: ['write', 'list'], bytesPerDay: 3 },
  });
  expect([413, 429]).toContain((await upload()).status);
  expect((await call('DELETE', `/keys/${boss.key.id}`)).status).toBe(403);
  expect((await call('DELETE', `/keys/${made.id}`)).status).toBe(204);
  expect((await upload()).status).toBe(401);
  expect((await call('DELETE', `/keys/${made.id}`)).status).toBe(404);
  expect((await readKeyFile(path)).map(({ name }) => name)).toEqual(['boss', 'shop']);
});

test('changes of the file of keys at the same time are all kept', async () => {
  const path = join(temporaryFolder(), 'keys.json');
  const names = Array.from({ length: 20 }, (_, number) => `key ${number}`);
  await Promise.all(
    names.map((name) =>
      changeKeyFile(path, (known) => [
        ...known,
        makeApiKey({ name, scopes: ['read'] }, new Date()).key,
      ]),
    ),
  );
  expect((await readKeyFile(path)).map(({ name }) => name).sort()).toEqual(names.sort());
});

test('without API keys nobody is shown keys, and no trunk is named', async () => {
  const { url, store } = await running();
  expect(await (await fetch(`${url}/console/access`)).json()).toEqual({});
  const { key } = await store.put('hello', { name: 'a.txt' });
  const trunk = { kind: 'trunk', fileId: 'group1/M00/x.merged', offset: 9 } as const;
  const storedAt = new Date(1000);
  store.locate = async () => ({
    file: await store.stat(key),
    trunk: { ...trunk, storedAt },
    storages: [{ address: 'a:1', active: true, copy: 'present' }],
  });
  const answer = await fetch(`${url}/console/file?id=${key}`);
  expect(answer.headers.get('cache-control')).toBe('no-store');
  expect(await answer.json()).toMatchObject({
    file: { key, name: 'a.txt', url: `/files/${key}` },
    trunk: { offset: 9, fileId: '', storedAt: storedAt.toISOString() },
    storages: [{ address: 'a:1', copy: 'present' }],
  });
});

test('where a file is needs what its facts need', async () => {
  const reader = makeApiKey({ name: 'r', scopes: ['read'] }, new Date());
  const writer = makeApiKey({ name: 'w', scopes: ['write'] }, new Date());
  const { url, store } = await guarded([reader.key, writer.key]);
  const { key } = await store.put('hello');
  const status = async (query: string, text?: string) => {
    const headers = text ? { authorization: `Bearer ${text}` } : {};
    return (await fetch(`${url}/console/${query}`, { headers })).status;
  };
  expect(await status(`file?id=${key}`)).toBe(401);
  expect(await status(`file?id=${key}`, writer.text)).toBe(403);
  expect(await status(`file?id=${key}`, reader.text)).toBe(200);
  expect(await status('file', reader.text)).toBe(400);
  expect(await status('file?id=AaIHUparJYjKn2WdrZ_Gyw', reader.text)).toBe(404);
  expect(await status('history?span=week', reader.text)).toBe(400);
});

test('a gateway that hangs or is gone is told from one that answers', async () => {
  const { fetch: real } = globalThis;
  let base = await serving(() => {});
  vi.stubGlobal('sessionStorage', { getItem: () => null });
  vi.stubGlobal('fetch', (at: string, init: RequestInit) => {
    return real(at.replace(PACKAGE.href, `${base}/`), init);
  });
  onTestFinished(() => void vi.unstubAllGlobals());
  const file = new URL('console/transfer.js', PACKAGE);
  const { get } = (await import(file.href)) as {
    get(path: string, parameters?: object, timeoutMs?: number): Promise<unknown>;
  };
  await expect(get('console/state', {}, 10)).rejects.toMatchObject({ name: 'TimeoutError' });
  const { url } = await running();
  base = url;
  expect(await get('console/state', {}, 60_000)).toHaveProperty('ready');
  base = 'http://127.0.0.1:1';
  await expect(get('console/file', { id: 'AaH8' })).rejects.toThrow(
    'The connection to the gateway was lost.',
  );
});

test('the table of storages has the figures of the state', async () => {
  const gateway = await running();
  gateway.store.members = [MEMBER];
  const answer = await fetch(`${gateway.url}/console/state`);
  const state = (await answer.json()) as ConsoleState;
  const { JSDOM } = createRequire(import.meta.url)('jsdom');
  vi.stubGlobal('document', new JSDOM('').window.document);
  onTestFinished(() => void vi.unstubAllGlobals());
  const { cluster } = await import(pathToFileURL(`${ROOT}/gateway/console/tables.js`).href);
  const cells = [...cluster({ ...state, now: 6_000 }).querySelectorAll('td')];
  const texts = cells.map(({ textContent }: { textContent: string }) => textContent);
  const expected = 'group1|10.0.0.7:23000|active|10.0 MiB|20.0 MiB|5.0 s ago|6.12';
  expect(texts.join('|')).toBe(expected);
});
