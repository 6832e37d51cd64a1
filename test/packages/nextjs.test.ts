import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { programsOf } from '../support/examples/guides.js';
import { freePort } from '../support/free-port.js';
import { installProject } from '../support/packed.js';
import { requirement } from '../support/requirements.js';
import { ofSuite, temporaryFolder } from '../support/temporary.js';

/** The app of the guide, built and served by Next.js as in production. */

const NEXT = {
  next: '16.4.6',
  react: '19.3.1',
  'react-dom': '19.3.1',
  typescript: '5.9.3',
  '@types/node': '20.19.43',
  '@types/react': '19.3.0',
};

const project = await installProject({ others: NEXT }).catch((error: unknown) => {
  // Says more than that it is not there.
  if (process.env.CI) throw error;
  return '';
});
const { missing } = requirement('Next.js, from the npm registry,', () => project !== '');

describe.skipIf(missing)('the app of the guide', () => {
  const bin = join(project, 'node_modules/next/dist/bin/next');
  const cwd = project;
  let url: string;
  let stop: (() => Promise<void>) | undefined;

  beforeAll(async () => {
    for (const [path, text] of programsOf('apps.md', 'ts')) {
      mkdirSync(dirname(join(project, path)), { recursive: true });
      writeFileSync(join(project, path), text);
    }
    const env = {
      ...process.env,
      NEXT_TELEMETRY_DISABLED: '1',
      PHOTOS: temporaryFolder(ofSuite),
    };
    // It checks the types, too.
    const built = await promisify(execFile)(process.execPath, [bin, 'build'], { cwd, env });
    expect(built.stdout).toContain('/photos/[key]');
    const port = String(await freePort());
    url = `http://127.0.0.1:${port}`;
    const server = spawn(process.execPath, [bin, 'start', '-p', port], { cwd, env, stdio: 'pipe' });
    const exited = new Promise((resolve) => server.once('exit', resolve));
    stop = async () => {
      server.kill('SIGTERM');
      await exited;
    };
    server.stderr.pipe(process.stderr);
    for await (const chunk of server.stdout) if (String(chunk).includes('Ready')) break;
  }, 300_000);
  afterAll(() => stop?.());

  const SVG = Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg">${'<g/>'.repeat(9000)}</svg>`);
  const bodies = [
    ['image/jpeg', randomBytes(300_000)],
    // Next.js compresses answers of this type.
    ['image/svg+xml', SVG],
  ] as const;

  test.each(bodies)('App Router: %s', async (type, body) => {
    const stored = await fetch(`${url}/photos`, {
      method: 'POST',
      headers: { 'content-type': type },
      body,
    });
    expect(stored.status).toBe(201);
    const photo = url + ((await stored.json()) as { url: string }).url;
    const got = await fetch(photo);
    expect([got.status, got.headers.get('content-type')]).toEqual([200, type]);
    expect(Buffer.from(await got.arrayBuffer()).equals(body)).toBe(true);
    const known = { 'if-none-match': got.headers.get('etag')! };
    expect((await fetch(photo, { headers: known })).status).toBe(304);
    expect((await fetch(photo, { method: 'DELETE' })).status).toBe(204);
    expect((await fetch(photo)).status).toBe(404);
  });

  test('App Router: other types are refused', async () => {
    const headers = { 'content-type': 'text/html' };
    const refused = await fetch(`${url}/photos`, { method: 'POST', headers, body: 'page' });
    expect(refused.status).toBe(415);
  });

  test.each(bodies)('Pages Router: %s', async (type, body) => {
    const form = new FormData();
    form.append('photo', new File([body], 'x', { type }));
    const stored = await fetch(`${url}/api/files`, { method: 'POST', body: form });
    expect(stored.status).toBe(201);
    const photo = url + stored.headers.get('location');
    const got = await fetch(photo);
    expect([got.status, got.headers.get('content-type')]).toEqual([200, type]);
    expect(Buffer.from(await got.arrayBuffer()).equals(body)).toBe(true);
    const etag = got.headers.get('etag')!;
    const head = await fetch(photo, { method: 'HEAD' });
    expect(head.headers.get('content-length')).toBe(String(body.length));
    expect((await fetch(photo, { headers: { 'if-none-match': etag } })).status).toBe(304);
    const part = await fetch(photo, { headers: { range: 'bytes=5-9', 'if-range': etag } });
    expect(part.status).toBe(206);
    expect(Buffer.from(await part.arrayBuffer())).toEqual(body.subarray(5, 10));
    const info = await fetch(`${photo}/info`);
    expect(await info.json()).toMatchObject({ size: body.length, type });
  });

  test('Pages Router: resumable uploads, and refusals', async () => {
    const body = randomBytes(1000);
    const tus = { 'tus-resumable': '1.0.0' };
    const metadata = `filetype ${Buffer.from('image/png').toString('base64')}`;
    const created = await fetch(`${url}/api/files`, {
      method: 'POST',
      headers: { ...tus, 'upload-length': '1000', 'upload-metadata': metadata },
    });
    expect(created.status).toBe(201);
    const upload = new URL(created.headers.get('location')!, url);
    const type = { 'content-type': 'application/offset+octet-stream' };
    for (const [from, to] of [
      [0, 400],
      [400, 1000],
    ] as const) {
      const headers = { ...tus, ...type, 'upload-offset': String(from) };
      const sent = await fetch(upload, {
        method: 'PATCH',
        headers,
        body: body.subarray(from, to),
      });
      expect([sent.status, sent.headers.get('upload-offset')]).toEqual([204, String(to)]);
    }
    expect(Buffer.from(await (await fetch(upload)).arrayBuffer()).equals(body)).toBe(true);
    const none = await fetch(`${url}/api/files/AAAAAAAAAAAAAAAAAAAAAA`);
    expect([none.status, await none.json()]).toMatchObject([404, { code: 'not_found' }]);
    const headers = { 'content-type': 'text/html' };
    const refused = await fetch(`${url}/api/files`, { method: 'POST', headers, body: 'page' });
    expect([refused.status, await refused.json()]).toMatchObject([
      415,
      { code: 'type_not_allowed' },
    ]);
  });
});
