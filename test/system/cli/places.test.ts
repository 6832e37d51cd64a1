import { execFile } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { run } from '../../support/cli/run.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A place that the user names is looked at before it is written. */

const execute = promisify(execFile);

test('get writes through a pipe, follows links and keeps the mode of a file', async () => {
  const { directory: cwd, env, put } = await keyedGateway();
  const { key } = await put('name', 'content');
  const text = (path: string) => readFileSync(join(cwd, path), 'utf8');
  const got = async (path: string) => {
    const { code, stderr } = await run(['get', key, '-o', path], { cwd, env });
    expect([code, stderr], path).toEqual([0, '']);
  };
  await execute('mkfifo', ['pipe'], { cwd });
  const reader = execute('cat', ['pipe'], { cwd });
  await got('pipe');
  expect((await reader).stdout).toBe('content');
  expect(lstatSync(join(cwd, 'pipe')).isFIFO()).toBe(true);

  mkdirSync(join(cwd, 'links'));
  writeFileSync(join(cwd, 'there'), 'old');
  chmodSync(join(cwd, 'there'), 0o640);
  symlinkSync('../there', join(cwd, 'links/to-file'));
  symlinkSync('../new', join(cwd, 'links/dangling'));
  for (const path of ['links/to-file', 'links/dangling']) {
    await got(path);
    expect(lstatSync(join(cwd, path)).isSymbolicLink()).toBe(true);
    expect(text(path)).toBe('content');
  }
  expect([text('there'), lstatSync(join(cwd, 'there')).mode & 0o777]).toEqual(['content', 0o640]);
  expect(text('new')).toBe('content');
  expect(await run(['get', key, '-o', '-'], { cwd, env })).toMatchObject({ stdout: 'content' });
  const missing = await run(['get', key, '-o', 'no/such/place'], { cwd, env });
  expect([missing.code, missing.stderr]).toEqual([1, 'stevedore: no/such/place does not exist\n']);
});

test('a file of API keys is changed where its link leads', async () => {
  const cwd = temporaryFolder();
  symlinkSync('real.json', join(cwd, 'keys.json'));
  for (const name of ['one', 'two']) {
    expect((await run(['keys', 'add', name, '--file', 'keys.json'], { cwd })).code).toBe(0);
  }
  expect(lstatSync(join(cwd, 'keys.json')).isSymbolicLink()).toBe(true);
  expect(lstatSync(join(cwd, 'real.json')).mode & 0o777).toBe(0o600);
  expect((await run(['keys', 'list', '--file', 'keys.json'], { cwd })).stdout).toMatch(/one.*two/s);
});
