import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { execFileSync } from '../../support/child-process.js';
import { parseCsv } from '../../support/cli/csv.js';
import { run, shell } from '../../support/cli/run.js';
import { running } from '../../support/gateway/harness.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What a directory has besides files with plain names: `put` and `import` take it or name it. */

async function gateway() {
  const { store, url } = await running();
  const stored = () =>
    [...store.files.values()].map(({ info, bytes }) => [info.name, bytes.toString()]).sort();
  return { store, stored, env: { STEVEDORE_URL: url } };
}

async function folder(): Promise<string> {
  const cwd = temporaryFolder();
  await mkdir(join(cwd, 'd/sub'), { recursive: true });
  return cwd;
}

test('links are followed, except back to a directory above them', async () => {
  const { stored, env } = await gateway();
  const cwd = await folder();
  await writeFile(join(cwd, 'elsewhere'), 'elsewhere');
  await writeFile(join(cwd, 'd/sub/a'), 'a');
  await symlink('../elsewhere', join(cwd, 'd/file'));
  await symlink('sub', join(cwd, 'd/one'));
  await symlink('sub', join(cwd, 'd/two'));
  await symlink('..', join(cwd, 'd/sub/up'));
  await symlink('nowhere', join(cwd, 'd/dangling'));
  await symlink('itself', join(cwd, 'd/itself'));
  const left = [
    'd/dangling is a link to nowhere, which does not exist',
    'd/itself is a link that leads to itself',
    'd/one/up leads back to a directory above it',
    'd/sub/up leads back to a directory above it',
    'd/two/up leads back to a directory above it',
  ];
  for (const summary of ['stored 4 files, 12 B', '4 files there already']) {
    const { code, stderr } = await run(['put', 'd'], { cwd, env });
    expect(code).toBe(1);
    const told = stderr.trimEnd().split('\n');
    expect(told.pop()).toBe(`${summary}; 5 files failed`);
    expect(told.sort()).toEqual(left);
  }
  expect(stored()).toEqual([
    ['d/file', 'elsewhere'],
    ['d/one/a', 'a'],
    ['d/sub/a', 'a'],
    ['d/two/a', 'a'],
  ]);
});

test('pipes and sockets are named and not waited for', async () => {
  const { stored, env } = await gateway();
  const cwd = await folder();
  execFileSync('mkfifo', [join(cwd, 'd/pipe')]);
  const server = createServer().listen(join(cwd, 'd/socket'));
  onTestFinished(() => void server.close());
  await writeFile(join(cwd, 'd/a'), 'a');
  const { code, stdout, stderr } = await run(['import', 'd'], { cwd, env });
  expect([code, parseCsv(stdout).map(([path]) => path)]).toEqual([1, ['a']]);
  const told = stderr.trimEnd().split('\n').sort();
  expect(told).toEqual([
    'd/pipe is a pipe, not a file',
    'd/socket is a socket, not a file',
    'stored 1 file, 1 B; 2 files failed',
  ]);
  const named = await run(['put', 'd/pipe', '/dev/null'], { cwd, env });
  expect([named.code, named.stderr]).toEqual([
    1,
    'd/pipe is a pipe, not a file\n/dev/null is a device, not a file\n2 files failed\n',
  ]);
  expect(stored()).toEqual([['a', 'a']]);
});

test('a file whose name is not UTF-8 is named as one that failed', async () => {
  const { stored, env } = await gateway();
  const cwd = await folder();
  await writeFile(Buffer.from(`${cwd}/d/caf\xe9`, 'latin1'), 'one');
  await writeFile(`${cwd}/d/für`, 'two');
  const { code, stderr } = await run(['put', 'd'], { cwd, env });
  expect([code, stderr]).toEqual([
    1,
    'd/caf\ufffd: the name is not UTF-8\nstored 1 file, 3 B; 1 file failed\n',
  ]);
  expect(stored()).toEqual([['d/für', 'two']]);
});

test('names with control characters are one line of receipts and complaints each', async () => {
  const { env } = await gateway();
  const cwd = await folder();
  await writeFile(join(cwd, 'd/a\nb\x1b[2J\u202e'), 'a');
  await symlink('nowhere', join(cwd, 'd/c\nd\x9b'));
  const { stdout, stderr } = await run(['put', 'd'], { cwd, env });
  expect(stdout).toMatch(/^\S{22} {2}1 {2}d\/a\\nb\\u001b\[2J\\u202e\n$/);
  expect(stderr).toMatch(/^d\/c\\nd\\u009b is a link to nowhere, which does not exist\n/);
});

test('stdin is stored under a name and a type', async () => {
  const { store, env } = await gateway();
  const cwd = await folder();
  const lines = [
    'head -c 3000000 /dev/zero | stevedore put - --name z.html --json',
    'echo two | stevedore put /dev/stdin --type text/x-two --json',
    'stevedore put <(echo three) --json',
  ];
  const receipts = [];
  for (const line of lines) {
    const { code, stdout, stderr } = await shell(line, { cwd, env });
    expect([code, stderr]).toEqual([0, '']);
    receipts.push(JSON.parse(stdout));
  }
  expect(receipts).toMatchObject([
    { name: 'z.html', type: 'text/html', size: 3_000_000 },
    { name: 'stdin', type: 'text/x-two', size: 4 },
    { size: 6 },
  ]);
  expect(store.files.get(receipts[0].key)?.bytes.equals(Buffer.alloc(3_000_000))).toBe(true);
  const twice = await shell('echo x | stevedore put - -', { cwd, env });
  expect([twice.code, twice.stderr]).toEqual([
    1,
    '-: stdin can be read only once\nstored 1 file, 2 B; 1 file failed\n',
  ]);
  const two = await run(['put', 'a', 'b', '--name', 'c'], { cwd, env });
  expect([two.code, two.stderr]).toEqual([2, 'stevedore: --name takes one path\n']);
});
