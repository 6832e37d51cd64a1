import { readFileSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { run, runApart } from '../../support/cli/run.js';
import { running } from '../../support/gateway/harness.js';
import { ROOT } from '../../support/paths.js';
import { temporaryFolder } from '../../support/temporary.js';

const UNKNOWN_KEY = 'AAAAAAAAAAAAAAAAAAAAAA';

async function gateway() {
  const { store, url } = await running({ limits: { maxFileBytes: 1_000_000 } });
  return { store, url, env: { STEVEDORE_URL: url } };
}

describe('stevedore put', () => {
  test('uploads files and directories, and prints a line for each', async () => {
    const { store, env } = await gateway();
    const cwd = temporaryFolder();
    await mkdir(join(cwd, 'holiday/beach'), { recursive: true });
    const files = new Map([
      ['holiday/a.jpg', 'a'],
      ['holiday/beach/ü b.txt', 'bb'],
      ['holiday/beach/empty', ''],
      ['one.html', '<p>'],
      ['tickets.epub', 'PK'],
    ]);
    for (const [name, text] of files) await writeFile(join(cwd, name), text);
    const args = ['put', 'holiday/', 'one.html', 'tickets.epub', '--group', 'Sömmer'];
    const { code, stdout, stderr } = await run(args, { cwd, env });
    expect([code, stderr]).toEqual([0, 'stored 5 files, 8 B\n']);
    const lines = stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(5);
    for (const line of lines) {
      const [key = '', size, name = ''] = line.split('  ');
      const entry = store.files.get(key);
      expect(entry?.bytes.toString()).toBe(files.get(name));
      expect(Number(size)).toBe(entry?.bytes.length);
      expect(entry?.info).toMatchObject({ name, group: 'Sömmer' });
    }
    const types = [...store.files.values()].map(({ info }) => info.type).sort();
    expect(types).toEqual([
      'application/epub+zip',
      'application/octet-stream',
      'image/jpeg',
      'text/html',
      'text/plain',
    ]);
  });

  test('names every file that failed, stores the others and exits with 1', async () => {
    const { store, env } = await gateway();
    const cwd = temporaryFolder();
    await writeFile(join(cwd, 'good'), 'x');
    await writeFile(join(cwd, 'long'), Buffer.alloc(1_000_001));
    const { code, stdout, stderr } = await run(['put', 'missing', 'long', 'good'], { cwd, env });
    expect(code).toBe(1);
    expect(stdout).toMatch(/^\S{22} {2}1 {2}good\n$/);
    expect(stderr).toContain('missing does not exist\n');
    expect(stderr).toContain('long: The body is longer than 1000000 bytes.\n');
    expect(stderr).toMatch(/\nstored 1 file, 1 B; 2 files failed\n$/);
    expect(store.files.size).toBe(1);
  });

  test('names the reason however much of a file was sent by then', async () => {
    const { env } = await gateway();
    const cwd = temporaryFolder();
    const names = Array.from({ length: 16 }, (_, index) => `long${index}`);
    for (const name of names) await writeFile(join(cwd, name), Buffer.alloc(5_000_000));
    const { stderr } = await runApart(['put', ...names], { cwd, env });
    const reasons = names.map((name) => `${name}: The body is longer than 1000000 bytes.`);
    expect(stderr.trimEnd().split('\n').sort()).toEqual([...reasons, '16 files failed'].sort());
  });
});

describe('stevedore get', () => {
  test('leaves no file behind when there is none to get', async () => {
    const { env } = await gateway();
    const cwd = temporaryFolder();
    const reasons = {
      [UNKNOWN_KEY]: 'There is no such file.',
      'group1/M00/00/00/x.jpg': 'This is not the path of a file in FastDFS.',
    };
    for (const [id, reason] of Object.entries(reasons)) {
      const { code, stderr } = await run(['get', id, '-o', 'out'], { cwd, env });
      expect([code, stderr]).toEqual([1, `stevedore: ${reason}\n`]);
    }
    expect(await readdir(cwd)).toEqual([]);
  });
});

test('stevedore stat and rm tell about a file, and delete it once', async () => {
  const { store, env } = await gateway();
  const { key } = await store.put('hello', { name: 'a\nb', type: 'text/plain', group: 'g' });
  const told = await run(['stat', key], { env });
  expect(told.stdout).toContain('name           a\\nb\n');
  expect(told.stdout).toContain('affinityGroup  g\n');
  const json = await run(['stat', key, '--json'], { env });
  expect(JSON.parse(json.stdout)).toMatchObject({ key, size: 5, crc32: '3610a686' });
  expect(await run(['rm', key], { env })).toEqual({ code: 0, stdout: '', stderr: '' });
  const again = await run(['rm', key, UNKNOWN_KEY], { env });
  expect(again.code).toBe(1);
  expect(again.stderr).toBe(
    `${key}: There is no such file.\n${UNKNOWN_KEY}: There is no such file.\n`,
  );
});

describe('wrong usage', () => {
  test.each([
    [[]],
    [['nonsense']],
    [['put']],
    [['get']],
    [['put', '--nope', 'x']],
    [['put', 'x', '--concurrency', '0']],
    [['get', UNKNOWN_KEY, '--url', 'gopher://x']],
    [['gateway', '--port', 'x']],
    [['gateway', '--workers', '-2']],
  ])('%j exits with 2', async (args) => {
    const { code, stdout, stderr } = await run(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).not.toBe('');
    expect(stderr).not.toContain('    at ');
  });

  test('help and version are none', async () => {
    for (const args of [['--help'], ['help', 'put'], ['gateway', '--help'], ['--version']]) {
      const { code, stdout } = await run(args);
      expect(code).toBe(0);
      expect(stdout).not.toBe('');
    }
    const { stdout } = await run(['put', '--help']);
    expect(stdout).toMatch(/\nExit codes: 0 done, 1 failed, 2 wrong usage\.\n$/);
  });
});

test('version tells the version of the gateway as well', async () => {
  const { env } = await keyedGateway();
  const { version } = JSON.parse(readFileSync(`${ROOT}/gateway/package.json`, 'utf8')) as {
    version: string;
  };
  const { code, stdout } = await run(['version'], { env });
  expect([code, stdout]).toEqual([
    0,
    `stevedore ${version}\ngateway ${version} at ${env.STEVEDORE_URL}\n`,
  ]);
  const gone = await run(['version', '--url', 'http://127.0.0.1:1']);
  expect([gone.code, gone.stdout]).toEqual([1, `stevedore ${version}\n`]);
});
