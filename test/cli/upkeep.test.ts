import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { execFileSync, spawnSync } from '../support/child-process.js';
import { COMMAND, startGatewayProcess } from '../support/gateway-process.js';
import { temporaryFolder } from '../support/temporary.js';

/** A gateway elsewhere may have the usual port of a tracker. */
async function takeTrackerPort(): Promise<void> {
  const server = createServer().listen(22_122, '127.0.0.1');
  onTestFinished(() => void server.close());
  await new Promise((done) => server.once('listening', done).once('error', done));
}

test('fsck, scrub and rebuild work on a directory that no gateway has', async () => {
  await takeTrackerPort();
  const directory = temporaryFolder();
  const run = (name: string, ...flags: string[]) =>
    execFileSync(process.execPath, [COMMAND, name, '--directory', directory, ...flags], {
      encoding: 'utf8',
    });
  const gateway = await startGatewayProcess(directory, '--merge-max-age', '50ms');
  const keys: string[] = [];
  for (let index = 0; index < 20; index++) {
    const posted = await fetch(`${gateway.url}/files`, {
      method: 'POST',
      body: `file ${index}`,
      headers: { 'x-filename': `${index}.txt` },
    });
    keys.push(((await posted.json()) as { key: string }).key);
  }
  const busy = spawnSync(process.execPath, [COMMAND, 'fsck', '--directory', directory], {
    encoding: 'utf8',
  });
  expect(busy.status).toBe(1);
  expect(busy.stderr).toContain('in use by another process');
  await expect
    .poll(async () => {
      const info = await fetch(`${gateway.url}/files/${keys.at(-1)}/info`);
      return ((await info.json()) as { fileId?: string }).fileId;
    })
    .toBeDefined();
  await gateway.stop();

  expect(run('fsck')).toContain('no problems found');
  expect(JSON.parse(run('fsck', '--json'))).toMatchObject({ mergedFiles: 20, problems: [] });
  expect(run('scrub')).toContain('no damage found');
  expect(run('rebuild')).toMatch(/0 staged and 20 merged files in \d+ trunks/);
  rmSync(join(directory, 'filemap.sqlite'));
  expect(JSON.parse(run('scrub', '--json'))).toMatchObject({ slices: 20, damaged: [] });

  const again = await startGatewayProcess(directory);
  for (const [index, key] of keys.entries()) {
    expect(await (await fetch(`${again.url}/files/${key}`)).text()).toBe(`file ${index}`);
  }
  expect(await again.stop()).toBe(0);
});

test.each(['fsck', 'scrub', 'rebuild'])('%s makes no store where there is none', (name) => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'photos'));
  for (const directory of ['photos', 'missing', 'stevedore-data']) {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [COMMAND, name, '--directory', directory],
      { cwd: folder, encoding: 'utf8' },
    );
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^stevedore: .* is not a store: .*\n$/);
    expect(stderr).toContain(join(folder, directory));
  }
  expect(readdirSync(folder, { recursive: true })).toEqual(['photos']);
});

test('a FileMap is not thrown away where there is no container to make it from', async () => {
  const directory = temporaryFolder();
  const gateway = await startGatewayProcess(directory);
  await gateway.stop();
  rmSync(join(directory, 'container'), { recursive: true });
  const args = [COMMAND, 'rebuild', '--directory', directory];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect([status, stderr]).toEqual([1, expect.stringContaining('it has no container')]);
  expect(readdirSync(directory)).toContain('filemap.sqlite');
});

test.each(['fsck', 'scrub', 'rebuild'])('the help of %s has the ports that it takes', (name) => {
  const help = spawnSync(process.execPath, [COMMAND, name, '--help'], { encoding: 'utf8' }).stdout;
  expect(help.match(/\(default: 0;\s+STEVEDORE_(?:TRACKER|STORAGE)_PORT\)/g)).toHaveLength(2);
});
