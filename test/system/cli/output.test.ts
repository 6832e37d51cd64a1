import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { Running, shell } from '../../support/cli/run.js';
import { RawConnection } from '../../support/gateway/harness.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Output that nobody takes: daemons work on, and no command that prints ends with 0. */

const ANY_PORTS = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];

test.each([['one process'], ['workers', '--workers', '2']])(
  'a gateway of %s whose log nobody reads serves, and a closed terminal drains it',
  async (_kind, ...more) => {
    const args = ['gateway', ...ANY_PORTS, '--log-level', 'info', ...more];
    const gateway = new Running(args, { cwd: temporaryFolder() });
    const url = await gateway.ready();
    gateway.process.stderr?.destroy();
    gateway.process.stdout?.destroy();
    for (let count = 0; count < 4; count += 1) expect((await fetch(url)).status).toBe(200);
    const upload = new RawConnection(Number(new URL(url).port));
    await upload.send(
      'POST /files HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n',
    );
    await upload.sees(/100 Continue/);
    gateway.process.kill('SIGHUP');
    await upload.send('ab');
    expect((await upload.answer()).status).toBe(201);
    expect(await gateway.result()).toMatchObject({ code: 0 });
  },
);

test.each([
  ['tracker', '--port', '0'],
  ['storage', '--port', '0', '--store-paths', 'disk'],
])('a %s whose log nobody reads is drained by a closed terminal', async (...args) => {
  const daemon = new Running(args, { cwd: temporaryFolder() });
  await daemon.ready();
  daemon.process.stderr?.destroy();
  daemon.process.kill('SIGHUP');
  expect(await daemon.result()).toMatchObject({ code: 0 });
});

test('commands that print do not end with 0 when their reader has gone', async () => {
  const { env, put, directory: cwd } = await keyedGateway();
  const { key } = await put('name', 'x'.repeat(1_000_000));
  mkdirSync(join(cwd, 'd'));
  for (let file = 0; file < 300; file += 1) writeFileSync(join(cwd, 'd', String(file)), 'x');
  for (const [line, told] of [
    [`stevedore get ${key} | head -c 1`, ''],
    [`stevedore get ${key} > /dev/full`, 'stevedore: stdout: the disk is full\n'],
    ['stevedore ls > /dev/full', 'stevedore: stdout: the disk is full\n'],
    ['stevedore export out > /dev/full', 'stevedore: stdout: the disk is full\n'],
    ['stevedore import d | head -n 1', 'stevedore: stdout: the other side closed the connection\n'],
  ] as const) {
    const { code, stderr } = await shell(line, { env, cwd });
    expect([code, stderr], line).toEqual([1, told]);
  }
  const quiet = await shell('stevedore ls --limit 1 2>/dev/full', { env, cwd });
  expect([quiet.code, quiet.stdout]).toEqual([0, expect.stringContaining(key)]);
});
