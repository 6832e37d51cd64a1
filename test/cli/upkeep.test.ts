import { execFileSync, spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { COMMAND, startGatewayProcess } from '../support/gateway-process.js';
import { temporaryFolder } from '../support/temporary.js';

const PORTS = ['--tracker-port', '0', '--storage-port', '0'];

test('fsck, scrub and rebuild work on a directory that no gateway has', async () => {
  const directory = temporaryFolder();
  const run = (name: string, ...flags: string[]) =>
    execFileSync(process.execPath, [COMMAND, name, '--directory', directory, ...PORTS, ...flags], {
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
