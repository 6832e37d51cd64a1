import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { startGateway } from '@stevedore/gateway';
import { expect, onTestFinished, test } from 'vitest';
import { run, runApart } from '../../support/cli/run.js';
import { temporaryFolder } from '../../support/temporary.js';

async function started(directory: string) {
  const ports = { port: 0, trackerPort: 0, storagePort: 0 } as const;
  const gateway = await startGateway({ ...ports, directory, idMaxAge: 0, logLevel: 'silent' });
  onTestFinished(() => gateway.close());
  return gateway;
}

/** A gateway elsewhere may have the usual port of a tracker. */
async function takeTrackerPort(): Promise<void> {
  const server = createServer().listen(22_122, '127.0.0.1');
  onTestFinished(() => void server.close());
  await new Promise((done) => server.once('listening', done).once('error', done));
}

test('fsck, scrub and rebuild work on a directory that no gateway has', async () => {
  await takeTrackerPort();
  const directory = temporaryFolder();
  const of = (name: string, ...flags: string[]) => [name, '--directory', directory, ...flags];
  const said = async (name: string, ...flags: string[]) => {
    const { code, stdout, stderr } = await run(of(name, ...flags));
    expect([code, stderr]).toEqual([0, expect.anything()]);
    return stdout;
  };
  const gateway = await started(directory);
  const keys: string[] = [];
  for (let index = 0; index < 20; index++) {
    keys.push((await gateway.store.put(`file ${index}`, { name: `${index}.txt` })).key);
  }
  const busy = await runApart(of('fsck'));
  expect([busy.code, busy.stderr]).toEqual([1, expect.stringContaining('in use by another')]);
  await gateway.store.flush();
  await Promise.all(keys.map((key) => gateway.store.settled(key)));
  await gateway.close();

  expect(await said('fsck')).toContain('no problems found');
  expect(JSON.parse(await said('fsck', '--json'))).toMatchObject({ mergedFiles: 20, problems: [] });
  expect(await said('scrub')).toContain('no damage found');
  expect(await said('rebuild')).toMatch(/0 staged and 20 merged files in \d+ trunks/);
  rmSync(join(directory, 'filemap.sqlite'));
  expect(JSON.parse(await said('scrub', '--json'))).toMatchObject({ slices: 20, damaged: [] });

  const again = await started(directory);
  for (const [index, key] of keys.entries()) {
    expect(String(await (await again.store.get(key)).bytes())).toBe(`file ${index}`);
  }
});

test.each(['fsck', 'scrub', 'rebuild'])('%s makes no store, and takes ports', async (name) => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'photos'));
  for (const directory of ['photos', 'missing', 'stevedore-data']) {
    const told = await run([name, '--directory', directory], { cwd: folder });
    const { code, stdout, stderr } = told;
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^stevedore: .* is not a store: .*\n$/);
    expect(stderr).toContain(join(folder, directory));
  }
  expect(readdirSync(folder, { recursive: true })).toEqual(['photos']);
  const { stdout } = await run([name, '--help']);
  expect(stdout.match(/\(default: 0;\s+STEVEDORE_(?:TRACKER|STORAGE)_PORT\)/g)).toHaveLength(2);
});

test('a FileMap is not thrown away where there is no container to make it from', async () => {
  const directory = temporaryFolder();
  await (await started(directory)).close();
  rmSync(join(directory, 'container'), { recursive: true });
  const { code, stderr } = await run(['rebuild', '--directory', directory]);
  expect([code, stderr]).toEqual([1, expect.stringContaining('it has no container')]);
  expect(readdirSync(directory)).toContain('filemap.sqlite');
});
