import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { expect, onTestFinished, test } from 'vitest';
import { execFileSync } from '../support/child-process.js';
import { freePort } from '../support/free-port.js';
import { archives, installExamples, installProject } from '../support/packed.js';
import { ofTest, temporaryFolder } from '../support/temporary.js';

/** The examples, in a project of its own that has the packages as npm would give them. */

const PUBLIC = ['browser', 'client', 'gateway', 'middleware', 'pictures'].map(
  (name) => `@stevedore/${name}`,
);

const examples = await installExamples();

test('packages are fit for npm: publint and Are the types wrong have nothing to say', async () => {
  expect(Object.keys(archives).toSorted()).toEqual(PUBLIC);
  for (const [name, archive] of Object.entries(archives)) {
    const files = execFileSync('tar', ['-tzf', archive], { encoding: 'utf8' }).split('\n');
    expect(files, name).toEqual(expect.arrayContaining(['package/LICENSE', 'package/README.md']));
    expect(files, name).not.toContain('package/dist/.tsbuildinfo');
    const bytes = readFileSync(archive);
    const tarball = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    const { messages } = await publint({ pack: { tarball: tarball as ArrayBuffer }, strict: true });
    expect(messages, name).toEqual([]);
    const { types, ...rest } = await checkPackage(
      createPackageFromTarballData(new Uint8Array(bytes)),
    );
    expect(types, name).toMatchObject({ kind: 'included' });
    expect('problems' in rest ? rest.problems : [], name).toEqual([]);
  }
});

test('each package installs alone, and works from ES modules and by require()', async () => {
  const programs = {
    client: `open({ directory: './files' }).then(async (store) => {
      const { key } = await store.put('text');
      console.log(String(await (await store.get(key)).bytes()));
      await store.close();
    });`,
    middleware: `console.log(typeof httpHandler === 'function' ? 'text' : '');`,
    pictures: `console.log(typeof Pictures === 'function' ? 'text' : '');`,
    browser: `console.log(typeof upload === 'function' ? 'text' : '');`,
    gateway: `startGateway({ directory: './files', port: 0, trackerPort: 0, storagePort: 0 }).then(async (gateway) => {
      const answer = await fetch(gateway.url + '/files?name=a', { method: 'POST', body: 'text' });
      console.log(await (await fetch(new URL((await answer.json()).url, gateway.url))).text());
      await gateway.close();
    });`,
  };
  const modules = {
    client: ['open', '@stevedore/client'],
    middleware: ['httpHandler', '@stevedore/middleware/http'],
    pictures: ['Pictures', '@stevedore/pictures'],
    browser: ['upload', '@stevedore/browser'],
    gateway: ['startGateway', '@stevedore/gateway'],
  };
  for (const [name, program] of Object.entries(programs)) {
    const project = await installProject({ packages: [`@stevedore/${name}`] }, ofTest);
    const [what, from] = modules[name as keyof typeof modules];
    const imports = {
      'app.mjs': `import { ${what} } from '${from}';`,
      'app.cjs': `const { ${what} } = require('${from}');`,
    };
    for (const [file, line] of Object.entries(imports)) {
      rmSync(join(project, 'files'), { recursive: true, force: true });
      writeFileSync(join(project, file), `${line}\n${program}\n`);
      const output = execFileSync(process.execPath, ['--no-warnings', file], {
        cwd: project,
        encoding: 'utf8',
      });
      expect(output.trim(), `${name} ${file}`).toMatch(/(?:^|\n)text$/);
    }
  }
}, 300_000);

test('npx --no runs the command of the installed packages', () => {
  const words = ['--no', '--', 'stevedore', '--help'];
  const help = execFileSync('npx', words, { cwd: examples, encoding: 'utf8' });
  expect(help).toMatch(/^Usage: stevedore /);
});

test('the script stores, reads, merges and deletes', () => {
  const output = execFileSync('npm', ['run', '--silent', 'script'], {
    cwd: examples,
    encoding: 'utf8',
  });
  expect(output.match(/safe on disk: [A-Za-z0-9_-]{22} {2}/g)?.length).toBe(3);
  expect(output).toContain('read back:    <h1>Hello</h1>');
  expect(output.match(/FastDFS id: {3}group1\/M00\/\S+\.(html|css|jpg)\n/g)?.length).toBe(3);
  expect(output).toContain('deleted:      style.css');
});

test('the express app takes, gives and deletes photographs, and ends on SIGTERM', async () => {
  const child = spawn(process.execPath, ['dist/express-app.js'], {
    cwd: examples,
    env: { ...process.env, PORT: '0', DIRECTORY: temporaryFolder() },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout });
  const line = await new Promise<string>((resolve) => lines.once('line', resolve));
  const url = line.replace('ready ', '');
  const photo = randomBytes(100_000);
  const posted = await fetch(`${url}?name=photo.jpg`, {
    method: 'POST',
    body: photo,
    headers: { 'content-type': 'image/jpeg' },
  });
  expect(posted.status).toBe(201);
  const receipt = (await posted.json()) as { url: string };
  const photoUrl = new URL(receipt.url, url);
  const got = await fetch(photoUrl);
  expect(Buffer.from(await got.arrayBuffer()).equals(photo)).toBe(true);
  expect(got.headers.get('content-type')).toBe('image/jpeg');
  expect((await fetch(photoUrl, { method: 'DELETE' })).status).toBe(204);
  expect((await fetch(photoUrl)).status).toBe(404);
  expect((await fetch(`${url}/nonsense`)).status).toBe(404);
  const tooLarge = await fetch(url, { method: 'POST', body: randomBytes(10_000_001) }).catch(
    () => null,
  );
  // Refused while it is still sent: the answer or the closed connection, whichever comes first.
  expect([413, undefined]).toContain(tooLarge?.status);
  child.kill('SIGTERM');
  expect(await exited).toBe(0);
});

test.each(['http', 'express', 'fastify', 'multer'])(
  'the app of five lines with %s takes and gives pictures, and nothing else',
  async (name) => {
    const port = await freePort();
    const child = spawn(process.execPath, [`dist/middleware/${name}.js`], {
      cwd: examples,
      env: { ...process.env, PORT: String(port), DIRECTORY: temporaryFolder() },
      stdio: 'inherit',
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const url = `http://localhost:${port}/photos`;
    const form = (type: string, bytes: Uint8Array) => {
      const data = new FormData();
      data.append('photo', new File([new Uint8Array(bytes)], 'photo', { type }));
      return data;
    };
    const photo = randomBytes(100_000);
    await expect
      .poll(
        () =>
          fetch(url, { method: 'POST', body: form('image/jpeg', photo) }).catch(() => undefined),
        {
          timeout: 20_000,
        },
      )
      .toMatchObject({ status: 201 });
    const again = await fetch(url, { method: 'POST', body: form('image/jpeg', photo) });
    const [receipt] = ([] as { key: string }[]).concat((await again.json()) as { key: string });
    const got = await fetch(`${url}/${receipt!.key}`);
    expect(got.headers.get('content-type')).toBe('image/jpeg');
    expect(Buffer.from(await got.arrayBuffer()).equals(photo)).toBe(true);
    const refused = await fetch(url, {
      method: 'POST',
      body: form('text/html', Buffer.from('<p>')),
    });
    expect(refused.status).toBe(415);
    expect(((await refused.json()) as { code: string }).code).toBe('type_not_allowed');
    expect((await fetch(`${url}/${'A'.repeat(22)}`)).status).toBe(404);
  },
);
