import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { keyedGateway } from './keyed-gateway.js';
import { run, temporaryDirectory } from './run.js';

/** `stevedore mirror`: a folder and a group become alike, in both directions. */

async function setUp() {
  const { put, env } = await keyedGateway();
  const cwd = await temporaryDirectory();
  await mkdir(join(cwd, 'here/sub'), { recursive: true });
  const mirror = async (...args: string[]) => {
    const { code, stdout, stderr } = await run(['mirror', ...args], { cwd, env });
    return { code, stderr, names: stdout.split('\n').map((line) => line.split('  ')[2]) };
  };
  const names = async (...more: string[]) => {
    const listed = await run(['ls', '--group', 'g', '--json', ...more], { cwd, env });
    const lines = listed.stdout.trimEnd().split('\n').filter(Boolean);
    return lines.map((line) => (JSON.parse(line) as { name: string }).name).sort();
  };
  return { put, env, cwd, mirror, names };
}

test('a group becomes like a folder: what differs is sent, what it replaces is deleted', async () => {
  const { put, cwd, mirror, names } = await setUp();
  await put('same', 'same', 'g');
  await put('changed', 'old', 'g');
  await put('changed', 'older', 'g');
  await put('gone', 'gone', 'g');
  await put('of others', 'x', 'other');
  await writeFile(join(cwd, 'here/same'), 'same');
  await writeFile(join(cwd, 'here/changed'), 'new');
  await writeFile(join(cwd, 'here/sub/added'), 'added');

  const first = await mirror('here', '--to', 'g');
  expect([first.code, first.names.filter(Boolean).sort()]).toEqual([0, ['changed', 'sub/added']]);
  expect(first.stderr).toBe('stored 2 files, 8 B\ndeleted 2 files\n');
  expect(await names()).toEqual(['changed', 'gone', 'same', 'sub/added']);

  const again = await mirror('here', '--to', 'g', '--remove');
  expect([again.code, again.stderr]).toEqual([0, 'stored 0 files, 0 B\ndeleted 1 file\n']);
  expect(await names()).toEqual(['changed', 'same', 'sub/added']);

  await rm(join(cwd, 'here'), { recursive: true });
  await mkdir(join(cwd, 'here'));
  const empty = await mirror('here', '--to', 'g', '--remove');
  expect([empty.code, empty.stderr]).toEqual([2, expect.stringContaining('would delete all')]);
  const missing = await mirror('nowhere', '--to', 'g', '--remove');
  expect(missing.code).toBe(1);
  expect(await names()).toHaveLength(3);
});

test('a folder becomes like a group: the newest file of a name counts', async () => {
  const { put, cwd, mirror } = await setUp();
  await put('a', 'older', 'g');
  await put('a', 'newer', 'g');
  await put('sub/b', 'b', 'g');
  await writeFile(join(cwd, 'here/a'), 'changed here');
  await writeFile(join(cwd, 'here/more'), 'more');
  await writeFile(join(cwd, 'outside'), 'outside');
  await symlink('../outside', join(cwd, 'here/link'));

  const first = await mirror('here', '--from', 'g');
  expect([first.code, first.stderr]).toEqual([0, '']);
  expect(await readFile(join(cwd, 'here/a'), 'utf8')).toBe('newer');
  expect(await readFile(join(cwd, 'here/sub/b'), 'utf8')).toBe('b');

  const again = await mirror('here', '--from', 'g', '--remove');
  expect([again.code, again.stderr]).toEqual([0, 'deleted 1 file\n']);
  expect((await readdir(join(cwd, 'here'))).sort()).toEqual(['a', 'link', 'sub']);
  expect(await readFile(join(cwd, 'outside'), 'utf8')).toBe('outside');

  const empty = await mirror('here', '--from', 'none', '--remove');
  expect([empty.code, empty.stderr]).toEqual([2, expect.stringContaining('would delete all')]);
  expect((await mirror('here')).code).toBe(2);
});
