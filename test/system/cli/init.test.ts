import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { run } from '../../support/cli/run.js';
import { freePort } from '../../support/free-port.js';
import { ROOT } from '../../support/paths.js';
import { temporaryFolder } from '../../support/temporary.js';

/** `stevedore init`: what it writes is an app that works. */

/** Each starts several processes. */
vi.setConfig({ testTimeout: 180_000 });

describe.each(['express', 'fastify'])('an app with %s', (framework) => {
  test('stores a photo and gives it back', async () => {
    const cwd = temporaryFolder();
    const { code, stdout } = await run(['init', framework, 'app'], { cwd });
    expect(code).toBe(0);
    expect(stdout).toBe(
      '.gitignore\npackage.json\nserver.js\n\nNext:\n  cd app && npm install\n  npm start\n',
    );
    const folder = join(cwd, 'app');
    const { scripts, dependencies } = manifestIn(folder);
    expect(scripts).toEqual({ start: 'node server.js' });
    expect(Object.keys(dependencies)).toEqual([
      '@stevedore/client',
      '@stevedore/middleware',
      framework,
    ]);
    const server = readFileSync(join(folder, 'server.js'), 'utf8');
    expect(server).toMatch(/^\/\/ Run: npm start\n/);

    symlinkSync(join(ROOT, 'examples/node_modules'), join(folder, 'node_modules'));
    const port = await freePort();
    const child = spawn(process.execPath, ['server.js'], {
      cwd: folder,
      env: { ...process.env, PORT: String(port) },
      stdio: 'inherit',
    });
    const exited = new Promise((resolve) => child.once('exit', resolve));
    const url = `http://localhost:${port}/photos`;
    const photo = randomBytes(10_000);
    const post = async () => {
      const body = new FormData();
      body.append('photo', new File([photo], 'photo.jpg', { type: 'image/jpeg' }));
      return fetch(url, { method: 'POST', body }).catch(() => undefined);
    };
    try {
      await expect.poll(async () => (await post())?.status, { timeout: 90_000 }).toBe(201);
      const answer = await (await post())!.json();
      const [{ key }] = [answer].flat() as [{ key: string }];
      expect(Buffer.from(await (await fetch(`${url}/${key}`)).arrayBuffer())).toEqual(photo);
    } finally {
      child.kill('SIGKILL');
      await exited;
    }
  });
});

test('the app with Next.js is that of the guide', async () => {
  const cwd = temporaryFolder();
  const { stdout } = await run(['init', 'next'], { cwd });
  expect(stdout).toContain('\n\nNext:\n  npm install\n  npm run dev\n');
  const guide = readFileSync(join(ROOT, 'docs/guides/apps.md'), 'utf8');
  for (const path of ['next.config.ts', 'lib/photos.ts', 'app/photos/[key]/route.ts']) {
    expect(guide).toContain(readFileSync(join(cwd, path), 'utf8'));
  }
  expect(manifestIn(cwd).dependencies).toHaveProperty('next');
});

test('archives are depended on by their paths', async () => {
  const cwd = temporaryFolder();
  await mkdir(join(cwd, 'packages'));
  for (const name of ['client', 'middleware']) {
    writeFileSync(join(cwd, 'packages', `stevedore-${name}-0.1.0.tgz`), '');
  }
  await run(['init', 'express', 'app', '--packages', 'packages'], { cwd });
  expect(manifestIn(join(cwd, 'app')).dependencies).toMatchObject({
    '@stevedore/client': expect.stringMatching(/^file:\/.*\/packages\/stevedore-client-0.1.0.tgz$/),
  });
  const none = await run(['init', 'express', 'other', '--packages', '.'], { cwd });
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('no archive')]);
});

test('a folder with anything in it, and an unknown framework, are refused', async () => {
  const cwd = temporaryFolder();
  writeFileSync(join(cwd, 'file'), 'mine');
  const full = await run(['init', 'express'], { cwd });
  expect([full.code, full.stderr]).toEqual([2, 'stevedore: . is not empty\n']);
  const unknown = await run(['init', 'rails', 'app'], { cwd });
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('express, fastify')]);
});

function manifestIn(folder: string) {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly scripts: Readonly<Record<string, string>>;
    readonly dependencies: Readonly<Record<string, string>>;
  };
}
