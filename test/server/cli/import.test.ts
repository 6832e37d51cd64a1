import { readFileSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { FastdfsClient } from '@stevedore/fastdfs';
import { expect, test } from 'vitest';
import { execFileSync } from '../../support/child-process.js';
import { parseCsv } from '../../support/cli/csv.js';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { run } from '../../support/cli/run.js';
import { serving } from '../../support/serving.js';
import { temporaryFolder } from '../../support/temporary.js';
import { readAhead } from '../../support/zip-reader.js';

/** Key of a file of the group `album`, or another one. */
async function gateway() {
  const { put, ...others } = await keyedGateway();
  const store = async (name: string, text: string, group = 'album') =>
    (await put(name, text, group)).key;
  return { ...others, put: store };
}

function rows(csv: string): string[][] {
  expect(csv.split('\n')[0]).toBe('path,key,size,crc32,name');
  return parseCsv(csv);
}

const sumOf = (bytes: Buffer | string): string => crc32(bytes).toString(16).padStart(8, '0');

test('import takes over a directory, and export brings the same files back', async () => {
  const { directory, env } = await gateway();
  const source = join(directory, 'uploads');
  const files: Record<string, Buffer> = {
    'a.txt': Buffer.from('one'),
    '2024/07/b.bin': Buffer.alloc(3_000_000, 'b'),
    '2024/empty': Buffer.alloc(0),
  };
  for (const [path, bytes] of Object.entries(files)) {
    await mkdir(join(source, path, '..'), { recursive: true });
    await writeFile(join(source, path), bytes);
  }
  const first = await run(['import', source, '--group', 'old'], { env });
  expect([first.code, first.stderr]).toEqual([0, expect.stringContaining('stored 3 files')]);
  const imported = rows(first.stdout);
  expect(imported.map(([path]) => path).sort()).toEqual(Object.keys(files).sort());
  for (const [path, , size, sum] of imported) {
    expect([size, sum]).toEqual([String(files[path!]!.length), sumOf(files[path!]!)]);
  }
  await writeFile(join(source, 'new'), 'new');
  const second = await run(['import', source, '--group', 'old'], { env });
  expect(second.stderr).toContain('stored 1 file, 3 B; 3 files there already');
  const both = rows(second.stdout);
  expect(both.filter(([path]) => path !== 'new').sort()).toEqual(imported.sort());

  const target = join(directory, 'backup');
  const exported = await run(['export', target, '--group', 'old'], { env });
  expect([exported.code, exported.stderr]).toEqual([0, 'exported 4 files\n']);
  expect(rows(exported.stdout).sort()).toEqual(both.sort());
  execFileSync('diff', ['-r', source, target]);
});

test('import copies files of FastDFS by a list of their ids, and names those it cannot', async () => {
  const { started, directory, env } = await gateway();
  await using client = new FastdfsClient({ trackers: started.store.trackers });
  const bytes = Buffer.alloc(50_000, 'x');
  const fileId = await client.upload(bytes, { extension: 'jpg' });
  const appender = await client.uploadAppender(Buffer.from('begun'), { extension: 'log' });
  const list = join(directory, 'ids.txt');
  const gone = fileId.replace(/.{5}\.jpg$/, 'AAAAA.jpg');
  await writeFile(list, `${fileId},photo, the first.jpg\r\n\n${appender}\n${gone}\n`);
  const first = await run(['import', '--fastdfs', list], { env });
  expect(first.code).toBe(1);
  expect(first.stderr).toContain(gone);
  const imported = rows(first.stdout);
  expect(imported.map(([path]) => path)).toEqual([fileId, appender]);
  const [, key] = imported[0]!;
  const answer = await fetch(`${started.url}/files/${key}`);
  expect(answer.headers.get('content-disposition')).toContain('photo, the first.jpg');
  expect(answer.headers.get('content-type')).toBe('image/jpeg');
  expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).toBe(true);
  await client.append(appender, Buffer.from(' and on'));
  const second = await run(['import', '--fastdfs', list], { env });
  expect(second.stderr).toContain('stored 1 file, 12 B; 1 file there already; 1 file failed');
  expect(rows(second.stdout).map((row) => row[1])).toContain(key);
});

test('neither directory nor list, or both, is wrong usage', async () => {
  for (const args of [['import'], ['import', '.', '--fastdfs', 'list'], ['get'], ['rm']]) {
    const { code, stderr } = await run(args);
    expect([code, stderr]).toEqual([2, expect.stringContaining('name either')]);
  }
});

/** A gateway that has other bytes than it was sent, or than it lists. */
async function wrongGateway() {
  const key = 'A'.repeat(22);
  const listed = { key, name: 'a.txt', size: 3, crc32: sumOf('abc'), stagedAt: new Date(0) };
  const removed: string[] = [];
  const url = await serving((request, response) => {
    request.resume();
    const { method, url: asked = '' } = request;
    if (method === 'DELETE') removed.push(asked);
    if (method === 'DELETE') response.writeHead(204).end();
    else if (method === 'POST') response.end(JSON.stringify({ ...listed, crc32: '00000000' }));
    else if (asked.startsWith('/files?')) response.end(JSON.stringify({ files: [listed] }));
    else response.end('abd');
  });
  return { env: { STEVEDORE_URL: url }, removed, key };
}

test('bytes that are not the right ones are neither imported nor exported', async () => {
  const { env, removed, key } = await wrongGateway();
  const directory = temporaryFolder();
  await mkdir(join(directory, 'in'));
  await writeFile(join(directory, 'in', 'a.txt'), 'abc');
  for (const command of ['put', 'import']) {
    const { code, stdout, stderr } = await run([command, join(directory, 'in')], { env });
    expect([code, stderr]).toEqual([1, expect.stringContaining('received other bytes')]);
    expect(stdout).not.toContain(key);
  }
  expect(removed).toEqual([`/files/${key}`, `/files/${key}`]);
  const { code, stdout } = await run(['export', join(directory, 'out')], { env });
  expect([code, stdout]).toEqual([1, 'path,key,size,crc32,name\n']);
  expect(await readdir(join(directory, 'out'))).toEqual([]);
  await expect.poll(async () => (await readdir(directory)).sort()).toEqual(['in', 'out']);
});

test('a group comes as a ZIP that unzip accepts, and is deleted as a whole', async () => {
  const { started, directory, env, put, header } = await gateway();
  const keys: string[] = [];
  for (const name of ['one.txt', 'sub/two.txt', 'one.txt', '../three.txt', 'ünï.txt']) {
    keys.push(await put(name, `bytes of ${name}`));
  }
  await put('other.txt', 'other', 'other');
  const path = join(directory, 'album.zip');
  expect((await run(['get', '--group', 'album', '-o', path], { env })).code).toBe(0);
  expect(execFileSync('unzip', ['-t', path]).toString()).toContain('No errors detected');
  const script = 'import sys,zipfile;print("\\n".join(zipfile.ZipFile(sys.argv[1]).namelist()))';
  const listed = execFileSync('python3', ['-c', script, path]).toString().trimEnd().split('\n');
  expect(listed).toEqual([
    ...['one.txt', 'sub/two.txt', `one-${keys[2]}.txt`, 'three.txt', 'ünï.txt'],
  ]);
  const read = readAhead(readFileSync(path));
  expect(read.map(({ name }) => name)).toEqual(listed);
  expect(String(read[1]!.bytes)).toBe('bytes of sub/two.txt');
  const asked = (query: string, init: RequestInit = {}) =>
    fetch(`${started.url}/files?${query}`, { headers: header, ...init });
  expect((await asked('group=none&format=zip')).status).toBe(404);
  expect((await asked('format=rar')).status).toBe(400);
  const head = await asked('group=album&format=zip', { method: 'HEAD' });
  expect(head.headers.get('content-disposition')).toBe('attachment; filename="album.zip"');
  expect((await fetch(`${started.url}/files?group=album&format=zip`)).status).toBe(401);

  expect((await asked('', { method: 'DELETE' })).status).toBe(400);
  expect((await asked('type=text/plain', { method: 'DELETE' })).status).toBe(400);
  const page = await asked('group=album&limit=2', { method: 'DELETE' });
  expect(await page.json()).toEqual({ deleted: 2, next: keys[1] });
  const removed = await run(['rm', '--group', 'album'], { env });
  expect([removed.code, removed.stderr]).toEqual([0, 'deleted 3 files\n']);
  expect((await asked('group=album&format=zip')).status).toBe(404);
  const { stdout } = await run(['ls', '--keys'], { env });
  expect(stdout.trimEnd().split('\n')).toHaveLength(1);
});
