import { existsSync, statSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FastdfsClient } from '@stevedore/fastdfs';
import { expect, test } from 'vitest';
import { Running, run } from '../../support/cli/run.js';
import { freePorts } from '../../support/kills/daemon.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A gateway without API keys, and the commands of its user on its machine. */

async function started(cwd: string, ...flags: string[]) {
  const ports = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];
  const gateway = new Running(['gateway', ...ports, ...flags], { cwd });
  const url = await gateway.ready();
  const tracker = /tracker (127\.0\.0\.1:\d+)/.exec(gateway.stdout)?.[1] ?? '';
  return { gateway, url, tracker, env: { STEVEDORE_URL: url } };
}

test('ls, get --group and rm --group work after the start, without a word about keys', async () => {
  const cwd = temporaryFolder();
  const [port] = await freePorts(1);
  const { gateway, url, env } = await started(cwd, '--port', String(port));
  // From wherever the user is.
  const away = { cwd: temporaryFolder(), env };
  await writeFile(join(cwd, 'a.txt'), 'of the album');
  expect((await run(['put', join(cwd, 'a.txt'), '-g', 'album'], away)).code).toBe(0);
  const listed = await run(['ls', '--group', 'album'], away);
  expect([listed.stderr, listed.stdout]).toEqual(['', expect.stringContaining('a.txt')]);
  const zip = join(cwd, 'album.zip');
  expect(await run(['get', '--group', 'album', '-o', zip], away)).toMatchObject({ code: 0 });
  expect((await readFile(zip)).subarray(0, 2).toString()).toBe('PK');
  expect(await run(['rm', '--group', 'album'], away)).toMatchObject({
    code: 0,
    stderr: 'deleted 1 file\n',
  });
  const file = join(cwd, 'stevedore-data', 'local-key');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const key = (await readFile(file, 'utf8')).trim();
  // It is for people who see the start, and not for the log of a service.
  expect(gateway.stdout + gateway.stderr).not.toContain(key);
  // Whatever a request, or a proxy on this machine, says of itself.
  for (const headers of [
    {},
    { host: 'localhost' },
    { origin: url, 'sec-fetch-site': 'same-origin' },
    { 'x-forwarded-for': '127.0.0.1' },
    { 'x-api-key': key.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')) },
  ] as Record<string, string>[]) {
    for (const method of ['GET', 'DELETE']) {
      const answer = await fetch(`${url}/files?group=album`, { method, headers });
      expect([method, headers, answer.status]).toEqual([method, headers, 401]);
    }
  }
});

test('with API keys there is no other key', async () => {
  const cwd = temporaryFolder();
  const first = await started(cwd);
  const key = (await readFile(join(cwd, 'stevedore-data', 'local-key'), 'utf8')).trim();
  first.gateway.process.kill('SIGTERM');
  await first.gateway.result();
  const made = await run(['keys', 'add', 'one', '--file', 'keys.json'], { cwd });
  const { url, env } = await started(cwd, '--api-keys', 'keys.json');
  expect(existsSync(join(cwd, 'stevedore-data', 'local-key'))).toBe(false);
  expect((await fetch(`${url}/files`, { headers: { 'x-api-key': key } })).status).toBe(401);
  expect((await run(['ls'], { cwd, env })).stderr).toContain('needs an API key');
  const keyed = { ...env, STEVEDORE_API_KEY: made.stdout.trim() };
  expect((await run(['ls'], { cwd, env: keyed })).code).toBe(0);
});

test('files of a FastDFS whose paths need tokens are imported, read and deleted by their ids', async () => {
  const cwd = temporaryFolder();
  const { url, tracker, env } = await started(cwd, '--anti-leech-secret', 'FastDFS1234567890');
  await using client = new FastdfsClient({ trackers: [tracker] });
  const bodies = Array.from({ length: 20 }, (_, index) => `file ${index}`);
  const ids = await Promise.all(
    bodies.map((body) => client.upload(Buffer.from(body), { extension: 'txt' })),
  );
  await writeFile(join(cwd, 'ids.txt'), `${ids.join('\n')}\n`);
  expect((await fetch(`${url}/${ids[0]}`)).status).toBe(400);
  expect(await run(['get', String(ids[0])], { cwd, env })).toMatchObject({ stdout: bodies[0] });
  const imported = await run(['import', '--fastdfs', 'ids.txt'], { cwd, env });
  expect([imported.code, imported.stderr]).toEqual([0, expect.stringContaining('stored 20 files')]);
  const removed = await run(['rm', ...ids], { cwd, env });
  expect([removed.code, removed.stderr]).toEqual([0, '']);
  const [, row = ''] = imported.stdout.split('\n');
  const [id, key] = row.split(',');
  expect((await run(['get', String(id)], { cwd, env })).code).toBe(1);
  expect((await run(['get', String(key)], { cwd, env })).stdout).toMatch(/^file \d+$/);
});
