import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { startGateway } from '../../gateway/dist/start.js';
import { programsOf } from '../support/examples/guides.js';
import { installProject } from '../support/packed.js';
import { requirement } from '../support/requirements.js';
import { temporaryFolder } from '../support/temporary.js';

/** The tests that the guide shows run under their runners, in a project of their own. */

const OTHERS = { express: '5.3.0', jest: '30.5.2', vitest: '4.1.12' };

const project = await installProject({ others: OTHERS }).catch((error: unknown) => {
  // Says more than that they are not there.
  if (process.env.CI) throw error;
  return '';
});
const { missing } = requirement('Jest, from the npm registry,', () => project !== '');

/** Every kind of body and of answer, in the realm of Jest. */
const WITHIN_JEST = `
import { open, isStoreError } from '@stevedore/client';
import { connect } from '@stevedore/client/connect';

const bodies = () => [
  'text',
  Buffer.from('text'),
  new Uint8Array(Buffer.from('text')),
  new Uint8Array(Buffer.from('text')).buffer,
  new Blob(['text']),
  new Response('text').body,
  (async function* () { yield Buffer.from('text'); })(),
];

const stores = {
  open: () => open({ directory: process.env.DIRECTORY }),
  connect: async () => connect({ url: process.env.GATEWAY }),
};

test.each(Object.keys(stores))('%s: stores, reads, deletes, refuses', async (name) => {
  const store = await stores[name]();
  for (const body of bodies()) {
    const expiresAt = new Date(Date.now() + 60_000);
    const { key } = await store.put(body, { name: 'x.txt', expiresAt });
    const file = await store.get(key);
    expect(String(await file.bytes())).toBe('text');
    expect(await new Response(file.web()).text()).toBe('text');
    await store.delete(key);
    await expect(store.get(key)).rejects.toMatchObject({ code: 'not_found' });
  }
  const long = Buffer.alloc(5_000_000, 'long');
  const file = await store.get((await store.put(long)).key);
  const chunks = [];
  for await (const chunk of file.stream()) chunks.push(chunk);
  expect(Buffer.concat(chunks).equals(long)).toBe(true);
  const refused = await store.put(5).catch((error) => error);
  expect(isStoreError(refused, 'invalid_option')).toBe(true);
  const left = async function* () { yield Buffer.from('te'); throw new Error('no more'); };
  await expect(store.put(left())).rejects.toMatchObject({ code: 'aborted' });
  await store.close();
});

test('open: merges, and is there when it is opened again', async () => {
  const store = await stores.open();
  const { key } = await store.put('text');
  await store.flush();
  await expect(stores.open()).rejects.toMatchObject({ code: 'directory_locked' });
  await store.close();
  const again = await stores.open();
  expect(String(await (await again.get(key)).bytes())).toBe('text');
  await again.close();
});
`;

describe.skipIf(missing)('the guide', () => {
  const run = async (command: string, args: string[], env: Record<string, string> = {}) => {
    const own: NodeJS.ProcessEnv = { ...process.env, NODE_ENV: 'test', CI: 'true', ...env };
    // The runner of this test tells those below it that it is there.
    for (const name of Object.keys(own))
      if (/^(?:VITEST|NODE_TEST|JEST)/.test(name)) delete own[name];
    const how = { cwd: project, env: own, timeout: 50_000 };
    const { stdout, stderr } = await promisify(execFile)(command, args, how);
    return stdout + stderr;
  };
  const jest = (file: string, env: Record<string, string> = {}) =>
    run(join(project, 'node_modules/.bin/jest'), [file, '--testTimeout=45000'], {
      NODE_OPTIONS: '--experimental-vm-modules',
      ...env,
    });

  beforeAll(() => {
    for (const [path, text] of programsOf('testing.md')) {
      mkdirSync(dirname(join(project, path)), { recursive: true });
      writeFileSync(join(project, path), text);
    }
  });

  test('node:test', async () => {
    expect(await run(process.execPath, ['--test', 'test/photos.test.js'])).toMatch(/pass 1\n/);
  });

  test('vitest', async () => {
    const vitest = join(project, 'node_modules/.bin/vitest');
    const said = await run(vitest, ['run', '--no-color', 'test/photos.spec.js']);
    expect(said).toMatch(/Tests +1 passed/);
  });

  test('Jest', async () => {
    expect(await jest('test/photos.jest.js')).toContain('1 passed, 1 total');
  });

  test('in Jest, open() and connect() do all that they do elsewhere', async () => {
    writeFileSync(join(project, 'test/stores.jest.js'), WITHIN_JEST);
    const gateway = await startGateway({
      port: 0,
      trackerPort: 0,
      storagePort: 0,
      directory: temporaryFolder(),
    });
    const env = { GATEWAY: gateway.url, DIRECTORY: temporaryFolder() };
    const said = await jest('test/stores.jest.js', env).finally(() => gateway.close());
    expect(said).toContain('3 passed, 3 total');
  });
});
