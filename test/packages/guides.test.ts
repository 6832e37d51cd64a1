import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { GUIDES, programsOf } from '../support/examples/guides.js';
import { freePort } from '../support/free-port.js';
import { ROOT } from '../support/paths.js';

/** The programs in the guides run, and do what the guides say. */

/** It has the packages and the frameworks that the guides import. */
const EXAMPLES = join(ROOT, 'examples/dist');
const JPEG = Buffer.from('ffd8ffe000104a46494600010100000100010000ffd9', 'hex');
const ann = { 'x-user': 'ann' };

function inExamples(): string {
  const folder = mkdtempSync(join(EXAMPLES, 'guide-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Starts the program of the guide; resolves with the URL that it prints once it listens. */
async function serve(
  program: string,
  modules: Readonly<Record<string, string>> = {},
): Promise<string> {
  const folder = inExamples();
  const port = String(await freePort());
  expect(program).toContain('3000');
  writeFileSync(join(folder, 'server.js'), program.replaceAll('3000', port));
  for (const [path, text] of Object.entries(modules)) writeFileSync(join(folder, path), text);
  const env = { ...process.env, LINK_SECRET: 'a secret of the tests' };
  const child = spawn(process.execPath, ['server.js'], { cwd: folder, env, stdio: 'pipe' });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  onTestFinished(async () => {
    child.kill('SIGINT');
    // A program that does not end by itself would keep the test waiting.
    expect(await exited).toBe(0);
  });
  let said = '';
  for await (const chunk of child.stdout) {
    said += String(chunk);
    if (said.includes('\n')) break;
  }
  expect(said.trim()).toMatch(new RegExp(`^http://127\\.0\\.0\\.1:${port}(?:/files/\\S+)?$`));
  return said.trim();
}

function form(...types: string[]): FormData {
  const data = new FormData();
  for (const type of types) data.append('photos', new File([JPEG], 'one.jpg', { type }));
  return data;
}

async function jsonOf<T>(response: Response): Promise<T> {
  return (await response.json()) as T;
}

async function expectPhoto(url: string): Promise<void> {
  const got = await fetch(url);
  expect([got.status, got.headers.get('content-type')]).toEqual([200, 'image/jpeg']);
  expect(Buffer.from(await got.arrayBuffer()).equals(JPEG)).toBe(true);
}

/** Of the guide, for that framework. */
function programFor(framework: string, name: string): string {
  const found = programsOf('apps.md').find(
    ([path, text]) => path === name && text.includes(`'@stevedore/middleware/${framework}'`),
  );
  return found![1];
}

describe.each(['express', 'fastify'])('%s', (guide) => {
  test('users store photos, everybody reads them, owners delete them', async () => {
    const url = await serve(programFor(guide, 'server.js'));
    const photos = `${url}/photos`;
    const body = form('image/jpeg', 'image/jpeg');
    expect((await fetch(photos, { method: 'POST', body })).status).toBe(401);
    const posted = await fetch(photos, { method: 'POST', headers: ann, body });
    expect(posted.status).toBe(201);
    const receipts = await jsonOf<{ readonly url: string }[]>(posted);
    expect(receipts).toHaveLength(2);
    const photo = url + receipts[0]!.url;
    await expectPhoto(photo);
    const bob = { 'x-user': 'bob' };
    expect((await fetch(photo, { method: 'DELETE', headers: bob })).status).toBe(403);
    expect((await fetch(photo, { method: 'DELETE', headers: ann })).status).toBe(204);
    expect((await fetch(photo)).status).toBe(404);
    const page = await fetch(photos, { method: 'POST', headers: ann, body: form('text/html') });
    expect(page.status).toBe(415);
    expect(await jsonOf(page)).toMatchObject({ code: 'type_not_allowed' });
    const fake = await fetch(photos, { method: 'POST', headers: ann, body: form('image/png') });
    expect(fake.status).toBe(415);
    expect(await jsonOf(fake)).toMatchObject({ code: 'type_mismatch' });
  });

  test('resumable uploads become files of their owner', async () => {
    const url = await serve(programFor(guide, 'server.js'));
    const tus = { ...ann, 'tus-resumable': '1.0.0' };
    const metadata = `filetype ${Buffer.from('video/mp4').toString('base64')}`;
    const begun = await fetch(`${url}/videos`, {
      method: 'POST',
      headers: { ...tus, 'upload-length': String(JPEG.length), 'upload-metadata': metadata },
    });
    expect(begun.status).toBe(201);
    const upload = new URL(begun.headers.get('location')!, url);
    const headers = { ...tus, 'content-type': 'application/offset+octet-stream' };
    const sent = await fetch(upload, {
      method: 'PATCH',
      headers: { ...headers, 'upload-offset': '0' },
      body: JPEG,
    });
    expect(sent.status).toBe(204);
    const got = await fetch(upload);
    expect(Buffer.from(await got.arrayBuffer()).equals(JPEG)).toBe(true);
    expect((await fetch(`${url}/videos`, { method: 'POST', body: JPEG })).status).toBe(401);
  });
});

/** What the guide has between these, in its section on links. */
const LINKING = {
  express: {
    before: `import { download, problems } from '@stevedore/middleware/express';
      import express from 'express';
      const app = express();`,
    after: `app.use(problems(store));
      const server = app.listen(3000, '127.0.0.1', started);
      const stop = () => server.close();`,
  },
  fastify: {
    before: `import { download } from '@stevedore/middleware/fastify';
      import { fastify } from 'fastify';
      const app = fastify();`,
    after: `await app.listen({ port: 3000 });
      started();
      const stop = () => app.close();`,
  },
};

test.each(['express', 'fastify'] as const)('%s: links end, and open one file', async (guide) => {
  const links = programsOf('apps.md').find(([path]) => path === 'links.js')![1];
  const page = readFileSync(join(GUIDES, 'apps.md'), 'utf8').split('## Links that end')[1]!;
  const name = { express: 'Express', fastify: 'Fastify' }[guide];
  const [, route] = new RegExp(`^With ${name}.*?^\`\`\`js\\n(.+?)^\`\`\`$`, 'ms').exec(page)!;
  const { before, after } = LINKING[guide];
  const url = await serve(
    `import { open } from '@stevedore/client';
    import { isLink, linkTo } from './links.js';
    ${before}
    const store = await open({ directory: './data' });
    const { key } = await store.put('text', { type: 'text/plain' });
    const started = () => console.log('http://127.0.0.1:3000' + linkTo(key));
    ${route}
    ${after}
    process.once('SIGINT', async () => { await stop(); await store.close(); });`,
    { 'links.js': links },
  );
  const link = new URL(url);
  const status = async (change: (link: URL) => void) => {
    const changed = new URL(link);
    change(changed);
    return (await fetch(changed)).status;
  };
  const got = await fetch(link);
  expect([got.status, await got.text()]).toEqual([200, 'text']);
  expect(got.headers.get('cache-control')).toMatch(/^private/);
  expect((await fetch(link, { method: 'HEAD' })).status).toBe(200);
  expect(await status(({ searchParams }) => searchParams.set('expires', '9999999999'))).toBe(403);
  expect(await status(({ searchParams }) => searchParams.append('w', '1'))).toBe(403);
  expect(await status((each) => void Object.assign(each, { search: '' }))).toBe(403);
  expect(
    await status((each) => void Object.assign(each, { pathname: `/files/${'A'.repeat(22)}` })),
  ).toBe(403);
});

test('every guide is short, and in the README and on the site', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const site = readFileSync(join(ROOT, 'docs/typedoc.json'), 'utf8');
  const guides = readdirSync(GUIDES);
  expect(guides.filter((guide) => !readme.includes(`docs/guides/${guide}`))).toEqual([]);
  expect(guides.filter((guide) => !site.includes(`"guides/${guide}"`))).toEqual([]);
  const words = (guide: string) => {
    const text = readFileSync(join(GUIDES, guide), 'utf8').replace(/^```.*?^```$/gms, '');
    return text.split(/\s+/).length;
  };
  expect(guides.filter((guide) => words(guide) > 1000)).toEqual([]);
});

test('metrics and answers that operations and guides name are in the reference', () => {
  const reference = readFileSync(join(ROOT, 'docs/REFERENCE.md'), 'utf8');
  const pages = [
    join(ROOT, 'docs/OPERATIONS.md'),
    ...readdirSync(GUIDES).map((each) => join(GUIDES, each)),
  ];
  const text = pages.map((page) => readFileSync(page, 'utf8')).join('\n');
  const metrics = [...text.matchAll(/`(stevedore_\w+)`/g)].map(([, name]) => `| \`${name}\` |`);
  expect(metrics).not.toEqual([]);
  const answers = [...text.matchAll(/\b([45]\d\d) `([a-z_]+)`/g)].map(
    ([, status, code]) => `| \`${code}\` | ${status} |`,
  );
  expect(answers).not.toEqual([]);
  expect([...metrics, ...answers].filter((row) => !reference.includes(row))).toEqual([]);
});
