import type { RequestListener } from 'node:http';
import { Readable } from 'node:stream';
import { type FileStore, open, type StoredFile, StoreError } from '@stevedore/client';
import { stevedore } from '@stevedore/middleware/fastify';
import { httpHandler } from '@stevedore/middleware/http';
import { fastify } from 'fastify';
import { afterAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { type App, adapters } from '../../support/middleware/adapters.js';
import { serving } from '../../support/serving.js';
import { soon } from '../../support/soon.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/** An error of the server leaves a trace, whichever adapter runs into it and whenever. */

const KEY = 'AAAAAAAAAAAAAAAAAAAAAA';
const printed: string[] = [];
const store = await open({ directory: temporaryFolder(ofSuite) });
afterAll(() => store.close());
const file = await store.get((await store.put(Buffer.alloc(300_000))).key);

beforeEach(() => {
  printed.length = 0;
  vi.spyOn(console, 'error').mockImplementation((error) => {
    printed.push(String(error instanceof Error ? error.stack : error));
  });
  // Express prints nothing under test, and answers with stacks in development.
  vi.stubEnv('NODE_ENV', 'production');
  onTestFinished(() => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });
});

/** What is done fails with this; of a file, behind its first bytes. */
function failing(error: Error): FileStore {
  const broken = new Proxy(file, {
    get: (target, name) => {
      if (name !== 'content') return Reflect.get(target, name, target) as unknown;
      return async () => Readable.from(pieces());
    },
  });
  async function* pieces() {
    yield Buffer.alloc(200_000);
    throw error;
  }
  const get = async (key: string): Promise<StoredFile> => {
    if (key === KEY) throw error;
    return broken;
  };
  return new Proxy(store, {
    get: (target, name) => {
      if (name === 'get') return get;
      if (name === 'put' || name === 'putAll' || name === 'delete')
        return () => Promise.reject(error);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

const apps: readonly (readonly [string, (store: FileStore) => Promise<string>])[] = [
  ...adapters.map(
    ({ name, start }) => [name, async (store: FileStore) => urlOf(start(store, {}))] as const,
  ),
  [
    'fastify, with a logger',
    async (store) => {
      const stream = { write: (line: string) => void printed.push(line) };
      const app = fastify({ logger: { level: 'error', stream } });
      app.register(stevedore, { store, prefix: '/photos', allowDelete: true });
      onTestFinished(() => app.close());
      return `${await app.listen({ host: '127.0.0.1', port: 0 })}/photos`;
    },
  ],
];

/** Of an app that ends with the test. */
async function urlOf(starting: Promise<App>): Promise<string> {
  const { url, close } = await starting;
  onTestFinished(close);
  return url;
}

function form(): FormData {
  const data = new FormData();
  data.append('file', new File(['text'], 'x.txt'));
  return data;
}

const errors = [
  new Error('the disk fell off'),
  new StoreError('corrupt', 'no copy has the right checksum'),
];

test.each(apps)('%s: an error is printed once, and not told to clients', async (_name, start) => {
  for (const error of errors) {
    const url = await start(failing(error));
    for (const asked of [
      { path: '', method: 'POST', body: form() },
      { path: `/${KEY}`, method: 'GET' },
      { path: `/${KEY}`, method: 'DELETE' },
    ]) {
      printed.length = 0;
      const { path, ...init } = asked;
      const answer = await fetch(url + path, init);
      expect(answer.status).toBe(500);
      expect(await answer.text()).not.toContain(error.message);
      await soon(() => expect(printed).toHaveLength(1));
      expect(printed[0]).toContain(error.message);
    }
  }
});

test.each(apps)('%s: an error in mid-download is printed', async (_name, start) => {
  const url = await start(failing(errors[0]!));
  const answer = await fetch(`${url}/BAAAAAAAAAAAAAAAAAAAAA`);
  expect(answer.status).toBe(200);
  await expect(answer.arrayBuffer()).rejects.toThrow('terminated');
  await soon(() => expect(printed).toHaveLength(1));
  expect(printed[0]).toContain('the disk fell off');
});

test("onError takes the place of printing, and clients' errors are not printed", async () => {
  const store = failing(errors[0]!);
  const told: unknown[] = [];
  const handler = httpHandler({ store, onError: (error) => told.push(error) });
  const url = `${await serving(handler as RequestListener)}/files`;
  expect((await fetch(`${url}/${KEY}`)).status).toBe(500);
  expect((await fetch(`${url}/none`)).status).toBe(400);
  expect((await fetch(`${url}/a/b/c`)).status).toBe(404);
  expect([told, printed]).toEqual([[errors[0]], []]);
});
