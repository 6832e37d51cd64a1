import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { run } from '../../support/cli/run.js';
import { temporaryFolder } from '../../support/temporary.js';

/** `stevedore mirror`: a folder and a group become alike, in both directions. */

/** Each starts several processes. */
vi.setConfig({ testTimeout: 180_000 });

async function setUp() {
  const { started, put, header, env } = await keyedGateway();
  const cwd = temporaryFolder();
  await mkdir(join(cwd, 'here/sub'), { recursive: true });
  return {
    put,
    cwd,
    mirror: (...args: string[]) => run(['mirror', ...args], { cwd, env }),
    /** Of the group. */
    names: async () => {
      const answer = await fetch(`${started.url}/files?group=g`, { headers: header });
      const { files } = (await answer.json()) as { readonly files: readonly { name: string }[] };
      return files.map(({ name }) => name).sort();
    },
  };
}

/** A group that differs from its folder in every way. */
async function different() {
  const at = await setUp();
  await at.put('same', 'same', 'g');
  await at.put('changed', 'old', 'g');
  await at.put('changed', 'older', 'g');
  await at.put('gone', 'gone', 'g');
  await at.put('of others', 'x', 'other');
  await writeFile(join(at.cwd, 'here/same'), 'same');
  await writeFile(join(at.cwd, 'here/changed'), 'new');
  await writeFile(join(at.cwd, 'here/sub/added'), 'added');
  return at;
}

test('a group gets what differs in a folder, and what that replaces is deleted', async () => {
  const { mirror, names } = await different();
  const { code, stdout, stderr } = await mirror('here', '--to', 'g');
  const sent = stdout.trimEnd().split('\n');
  expect([code, sent.map((line) => line.split('  ')[2]).sort()]).toEqual([
    0,
    ['changed', 'sub/added'],
  ]);
  expect(stderr).toBe('stored 2 files, 8 B\ndeleted 2 files\n');
  expect(await names()).toEqual(['changed', 'gone', 'same', 'sub/added']);
});

test('--remove deletes from the group what the folder does not have', async () => {
  const { mirror, names } = await different();
  const { code, stderr } = await mirror('here', '--to', 'g', '--remove');
  expect([code, stderr]).toEqual([0, 'stored 2 files, 8 B\ndeleted 3 files\n']);
  expect(await names()).toEqual(['changed', 'same', 'sub/added']);
});

test('a folder that is empty or not there deletes nothing', async () => {
  const { put, mirror, names } = await setUp();
  await put('a', 'a', 'g');
  const empty = await mirror('here', '--to', 'g', '--remove');
  expect([empty.code, empty.stderr]).toEqual([2, expect.stringContaining('would delete all')]);
  const missing = await mirror('nowhere', '--to', 'g', '--remove');
  expect(missing.code).toBe(1);
  expect(await names()).toEqual(['a']);
});

test('a folder becomes like a group: the newest file of a name counts', async () => {
  const { put, cwd, mirror } = await setUp();
  await put('a', 'older', 'g');
  await put('a', 'newer', 'g');
  await put('sub/b', 'b', 'g');
  await writeFile(join(cwd, 'here/a'), 'changed here');
  await writeFile(join(cwd, 'here/more'), 'more');
  await mkdir(join(cwd, 'outside'));
  await writeFile(join(cwd, 'outside/file'), 'outside');
  await symlink('../outside', join(cwd, 'here/link'));

  const first = await mirror('here', '--from', 'g');
  expect([first.code, first.stderr]).toEqual([0, '']);
  expect(await readFile(join(cwd, 'here/a'), 'utf8')).toBe('newer');
  expect(await readFile(join(cwd, 'here/sub/b'), 'utf8')).toBe('b');
  expect(await readFile(join(cwd, 'here/more'), 'utf8')).toBe('more');

  const again = await mirror('here', '--from', 'g', '--remove');
  expect([again.code, again.stderr]).toEqual([0, 'deleted 1 file\n']);
  expect((await readdir(join(cwd, 'here'))).sort()).toEqual(['a', 'link', 'sub']);
  expect(await readFile(join(cwd, 'outside/file'), 'utf8')).toBe('outside');
});

test('a group without files deletes nothing, and a direction is needed', async () => {
  const { cwd, mirror } = await setUp();
  await writeFile(join(cwd, 'here/a'), 'mine');
  const empty = await mirror('here', '--from', 'none', '--remove');
  expect([empty.code, empty.stderr]).toEqual([2, expect.stringContaining('would delete all')]);
  expect(await readFile(join(cwd, 'here/a'), 'utf8')).toBe('mine');
  expect((await mirror('here')).code).toBe(2);
});
