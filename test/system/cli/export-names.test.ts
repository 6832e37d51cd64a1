import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseCsv } from '../../support/cli/csv.js';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { Running, run, shell } from '../../support/cli/run.js';

/** Names come from strangers: whatever they are, the export goes on, and the list says what became of them. */

const NAMES = [
  ...['n0', 'n0/x', 'n0/x/y', 'm/x', 'm', 'A', 'a', 'a', 'a.', '.', '..', '/', 'dir/', '../../etc'],
  ...['q'.repeat(1024), `${'a/'.repeat(500)}end`, 'x\0y', 'con', 'COM¹.txt', 'b\nc', '\ttab'],
  ...['\rcr', '=HYPERLINK("http://x")', '+1', '-1', '@x', "'=x", 'a;=1', '"', 'list.csv'],
  ...['e\u0301', '\u00e9', '/abs', 'x\\y'],
];
const LIST = 'path,key,size,crc32,name\n';

/** As the help says: one ' goes. */
const unguarded = (cell: string) => cell.replace(/^'(?='*[=+\-@\t\r\n])/, '');

test('a directory takes every name, in a list that no spreadsheet runs, and only once', async () => {
  const { directory, env, put } = await keyedGateway();
  const names = new Map<string, string>();
  for (const name of NAMES) names.set((await put(name, `content of ${name}`)).key, name);
  // Equal to the list when its head is written.
  names.set((await put('list.csv', LIST)).key, 'list.csv');
  names.set((await put('a', 'content of a')).key, 'a');
  const out = join(directory, 'in', 'out');
  await mkdir(out, { recursive: true });
  const line = `stevedore export '${out}' > '${out}/list.csv'`;
  const first = await shell(line, { env });
  expect([first.code, first.stderr]).toEqual([
    0,
    expect.stringMatching(/^exported 36 files; \d+ under another name\n$/),
  ]);
  const csv = await readFile(join(out, 'list.csv'), 'utf8');
  const rows = parseCsv(csv);
  expect(rows.map(([, key]) => key).sort()).toEqual([...names.keys()].sort());
  for (const [path = '', key = '', , , name = ''] of rows) {
    expect(path).not.toMatch(/^[=+\-@\t\r\n]/);
    expect(name).not.toMatch(/^[=+\-@\t\r\n]/);
    expect(unguarded(name)).toBe(names.get(key)!.replace('\0', '\ufffd'));
    const bytes = await readFile(join(out, unguarded(path)), 'utf8');
    expect(bytes).toBe(
      name === 'list.csv' && bytes === LIST ? LIST : `content of ${names.get(key)}`,
    );
  }
  expect(await readdir(join(directory, 'in'))).toEqual(['out']);
  const before = await snapshot(out);
  for (let run = 0; run < 2; run++) {
    const again = await shell(line, { env });
    expect([again.code, again.stderr]).toEqual([0, first.stderr]);
    expect(await snapshot(out)).toEqual(before);
  }
});

/** Paths, inodes and times of all files but the list. */
async function snapshot(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((each) => join(each.parentPath, each.name));
  const files = paths.filter((path) => path !== join(directory, 'list.csv')).sort();
  return Promise.all(
    files.map(async (path) => {
      const { ino, mtimeMs } = await stat(path);
      return `${path} ${ino} ${mtimeMs}`;
    }),
  );
}

test('files of one name and the same bytes stay one file, however they meet', async () => {
  const { directory, env, put } = await keyedGateway();
  for (let index = 0; index < 20; index++) await put('same', 'x'.repeat(100_000));
  const out = join(directory, 'out');
  for (let run_ = 0; run_ < 2; run_++) {
    const { code } = await run(['export', out, '-c', '64'], { env });
    expect([code, await readdir(out)]).toEqual([0, ['same']]);
  }
});

test('a directory that takes nothing ends the run with one sentence', async () => {
  const { directory, env, put } = await keyedGateway();
  for (const name of ['a', 'b/c', 'd']) await put(name, name);
  const { code, stderr } = await run(['export', '/sys'], { env, cwd: directory });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^exported 0 files\nstevedore: [^\n]+\n$/);
});

test('a signal ends it with what was done, and the next run goes on from there', async () => {
  const { directory, env, put } = await keyedGateway();
  const names = Array.from({ length: 150 }, (_, index) => String(index));
  for (const name of names) await put(name, name);
  const out = join(directory, 'out');
  const cut = new Running(['export', out, '-c', '1'], { env });
  while (cut.stdout.split('\n').length < 4) await new Promise((done) => setImmediate(done));
  cut.process.kill('SIGINT');
  const { code, stderr } = await cut.result();
  expect([code, cut.process.signalCode]).toEqual([null, 'SIGINT']);
  const [, done] = /^exported (\d+) files?; stopped: the same command goes on from here\n$/.exec(
    stderr,
  )!;
  const before = await snapshot(out);
  expect(before).toHaveLength(Number(done));
  const next = await run(['export', out], { env });
  expect([next.code, next.stderr]).toEqual([0, 'exported 150 files\n']);
  const after = await snapshot(out);
  expect(after).toHaveLength(150);
  expect(after).toEqual(expect.arrayContaining(before));
});
