import { chownSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { startGateway } from '@stevedore/gateway';
import { expect, test } from 'vitest';
import { MAIN, Running, run, runApart } from '../../support/cli/run.js';
import { freePort } from '../../support/free-port.js';
import { hasCommand, requirement } from '../../support/requirements.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Users as containers and services have them: one without a name, and root beside another. */

const NOBODY = 12_345;
const AS_NOBODY = ['setpriv', '--reuid', `${NOBODY}`, '--regid', `${NOBODY}`, '--clear-groups'];
const { missing } = requirement(
  'setpriv, and root',
  () => process.getuid?.() === 0 && hasCommand('setpriv', '--version'),
);
const ANY_PORTS = ['--tracker-port', '0', '--storage-port', '0'];

/** Of that user, whose files the caller makes. */
function ownFolder(): string {
  const folder = temporaryFolder();
  chownSync(folder, NOBODY, NOBODY);
  return folder;
}

test.skipIf(missing)('a user without a name and a home has a gateway, and puts files', async () => {
  const cwd = ownFolder();
  const env = `PATH=${process.env.PATH}`;
  const program = [...AS_NOBODY, 'env', '-i', env, process.execPath, MAIN];
  const ports = [...ANY_PORTS, '--port', String(await freePort())];
  const gateway = new Running(['gateway', ...ports], { cwd, program });
  const url = await gateway.ready();
  const puts = [...AS_NOBODY, 'env', '-i', env, `STEVEDORE_URL=${url}`, process.execPath, MAIN];
  const put = await runApart(['put', MAIN], { cwd, program: puts });
  expect([put.code, put.stderr]).toEqual([0, '']);
  gateway.process.kill('SIGTERM');
  expect(await gateway.result()).toMatchObject({ code: 0 });
});

test.skipIf(missing)('root makes nothing in the directory of another user', async () => {
  const directory = temporaryFolder();
  const gateway = await startGateway({ ...{ port: 0, trackerPort: 0, storagePort: 0 }, directory });
  await gateway.store.put('x');
  await gateway.close();
  const all = ['', ...(readdirSync(directory, { recursive: true }) as string[])];
  for (const path of all) chownSync(join(directory, path), NOBODY, NOBODY);
  for (const command of [['fsck'], ['scrub'], ['rebuild'], ['map', 'fill', '--map', 'sqlite:m']]) {
    const { code, stderr } = await run([...command, '--directory', directory]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining(`${AS_NOBODY.join(' ')} stevedore`),
    ]);
  }
  rmSync(join(directory, 'lock'));
  expect((await run(['doctor', '--directory', directory, ...ANY_PORTS])).code).toBe(0);
  const program = [...AS_NOBODY, process.execPath, MAIN];
  const { code } = await runApart(['fsck', '--directory', directory, ...ANY_PORTS], {
    program,
  });
  expect(code).toBe(0);
  const owners = readdirSync(directory, { recursive: true }) as string[];
  expect(new Set(owners.map((path) => statSync(join(directory, path)).uid))).toEqual(
    new Set([NOBODY]),
  );
});
