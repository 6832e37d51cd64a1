import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { askMigration } from '@stevedore/tiering/control';
import { expect, test, vi } from 'vitest';
import { Running, run, runApart } from '../../support/cli/run.js';
import { ROOT } from '../../support/paths.js';
import { temporaryFolder } from '../../support/temporary.js';

/** `stevedore cluster`: every part in one process, on free ports of the loopback. */

/** Each starts several processes. */
vi.setConfig({ testTimeout: 180_000 });

type Banner = Readonly<Record<'address' | 'tracker' | 'group1' | 'group2' | 'group3', string>>;

async function cluster(cwd: string, ...flags: string[]) {
  const running = new Running(['cluster', ...flags], { cwd });
  const url = await running.ready();
  return { running, url, banner: JSON.parse(running.stdout) as Banner };
}

test('a file is readable, also after a restart, the tiers tell of themselves, one signal ends all', async () => {
  const cwd = temporaryFolder();
  const { running, url, banner } = await cluster(cwd, '--log-level', 'info');
  const addresses = [banner.tracker, banner.group1, banner.group2, banner.group3];
  for (const address of addresses) expect(address).toMatch(/^127\.0\.0\.1:\d+$/);
  const stored = await fetch(`${url}/files`, { method: 'POST', body: 'hello' });
  const { key } = (await stored.json()) as { key: string };
  expect(await (await fetch(`${url}/files/${key}`)).text()).toBe('hello');

  for (const server of [banner.group1, banner.group2]) {
    expect(await askMigration(server, 'status')).toMatchObject({ migrates: true });
  }
  // What the console shows of each.
  const local = await readFile(join(cwd, 'stevedore-cluster/gateway/local-key'), 'utf8');
  const headers = { 'x-api-key': local.trim() };
  const state = (await (await fetch(`${url}/console/state`, { headers })).json()) as {
    readonly migrations: readonly { readonly storage: string }[];
  };
  expect(state.migrations.map(({ storage }) => storage).sort()).toEqual(
    [banner.group1, banner.group2].sort(),
  );
  await expect(askMigration(banner.group3, 'status')).rejects.toMatchObject({
    code: 'no_migration',
  });
  running.process.kill('SIGINT');
  const { code, stderr } = await running.result();
  expect(code).toBe(0);
  expect(stderr).not.toContain('"level":"error"');
  for (const address of addresses) {
    await expect(fetch(`http://${address}`)).rejects.toThrow('fetch failed');
  }

  const again = await cluster(cwd);
  expect(await (await fetch(`${again.url}/files/${key}`)).text()).toBe('hello');
  // Commands find its own key, and no other cluster gets the directory.
  const listed = await run(['ls', '--keys', '--url', again.url], { cwd });
  expect([listed.code, listed.stdout, listed.stderr]).toEqual([0, `${key}\n`, '']);
  const second = await runApart(['cluster'], { cwd });
  expect([second.code, second.stderr]).toEqual([1, expect.stringContaining('in use')]);
  again.running.process.kill('SIGTERM');
  again.running.process.kill('SIGTERM');
  expect([0, 130]).toContain((await again.running.result()).code);
});

test('storage ports are as told, and have to exist', async () => {
  const { code, stderr } = await runApart(['cluster', '--storage-port', '65534']);
  expect([code, stderr]).toEqual([2, expect.stringContaining('--storage-port')]);
});

test('the example shows that files of a user leave a metadata server, and what that gives', async () => {
  const cwd = temporaryFolder();
  const { banner } = await cluster(cwd, '--slow-disk', '20ms', '--cache-size', '0');
  const program = join(ROOT, 'examples/dist/cluster.js');
  const arguments_ = [program, banner.tracker, '5'];
  const { stdout } = await promisify(execFile)(process.execPath, arguments_);
  expect(stdout).toMatch(/^(\d+) are in group1, which has \1 rows$/m);
  const load = String.raw`load of small files \d+ % \(next \d+ %\), of metadata \d+ % \(next \d+ %\)`;
  const counts = String.raw`(\d+) moves, \d+ rows here, \d+ elsewhere; \d+ reads, \d+ changes of metadata`;
  const seconds = [
    ...stdout.matchAll(new RegExp(`^(paused|moving) +\\d s; ${load}; ${counts}$`, 'gm')),
  ];
  expect(seconds.map(([, what]) => what)).toEqual([
    ...Array(5).fill('paused'),
    ...Array(5).fill('moving'),
  ]);
  for (const [, , moves] of seconds.slice(0, 5)) expect(moves).toBe('0');
  expect(stdout).toMatch(/^[1-9]\d* moves; [1-9]\d* files are in other storage groups now$/m);
  expect(stdout).toMatch(/^reads a second: [\d.]+, with moves paused [\d.]+$/m);
  expect(stdout).toMatch(/^changes of metadata a second: [\d.]+, with moves paused [\d.]+$/m);
  expect(existsSync(join(cwd, 'stevedore-cluster/group1/data/.stevedore-moves.jsonl'))).toBe(true);
});
