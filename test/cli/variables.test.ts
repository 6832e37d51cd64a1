import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { run, temporaryDirectory } from './run.js';

const MISTYPED = { STEVEDORE_PROT: '1' };
const REFUSAL = 'no command reads STEVEDORE_PROT; did you mean STEVEDORE_PORT?';

describe('a mistyped variable', () => {
  test.each([
    [['gateway', '--port', '0']],
    [['tracker', '--port', '0']],
    [['storage', '--port', '0']],
    [['fsck']],
    [['keys', 'list']],
    [['put', 'x']],
    [['stat', 'x']],
  ])('is refused by %j', async (args) => {
    const cwd = await temporaryDirectory();
    const result = await run(args, { cwd, env: MISTYPED });
    expect(result).toEqual({ code: 2, stdout: '', stderr: `stevedore: ${REFUSAL}\n` });
  });

  test('is a problem that the doctor finds', async () => {
    const cwd = await temporaryDirectory();
    const ports = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];
    const { code, stdout } = await run(['doctor', ...ports], { cwd, env: MISTYPED });
    expect(code).toBe(1);
    expect(stdout).toContain(`PROBLEM  options: ${REFUSAL}\n`);
  });

  test('is none where another command reads it, or Kubernetes set it', async () => {
    const cwd = await temporaryDirectory();
    const env = {
      STEVEDORE_URL: 'http://127.0.0.1:1',
      STEVEDORE_API_KEY: 'x',
      STEVEDORE_TO_API_KEY: 'x',
      STEVEDORE_STORAGE: '127.0.0.1:1',
      STEVEDORE_STORE_PATHS: 'x',
      STEVEDORE_STORE_LOOKUP: 'group',
      STEVEDORE_SERVICE_HOST: '10.0.0.1',
      STEVEDORE_SERVICE_PORT_HTTP: '8080',
      STEVEDORE_PORT_8080_TCP_ADDR: '10.0.0.1',
      STEVEDORE_WEB_PORT: 'tcp://10.0.0.1:8080',
    };
    expect(await run(['keys', 'add', 'one'], { cwd, env })).toMatchObject({ code: 0 });
  });
});

describe('a wrong option', () => {
  test('is named as it was given', async () => {
    const cwd = await temporaryDirectory();
    const flag = await run(['gateway', '--trunk-size', '64'], { cwd });
    expect(flag.stderr).toContain('--trunk-size: "64" has no unit; write it like 64MiB');
    const env = { STEVEDORE_MOVE_RATE: 'fast' };
    const variable = await run(['storage', '--port', '0'], { cwd, env });
    expect(variable.stderr).toContain('STEVEDORE_MOVE_RATE: "fast" is not a whole number');
    const rate = await run(['scrub', '--rate', '5'], { cwd });
    expect(rate.stderr).toContain('--rate: "5" has no unit');
    await writeFile(join(cwd, 'stevedore.config.json'), '{ "trunkSize": 64 }');
    const file = await run(['gateway'], { cwd });
    expect(file.stderr).toContain('stevedore.config.json: trunkSize: 64 B is less than 1 MiB');
    const lookup = await run(['tracker', '--port', '0', '--store-lookup', 'group'], { cwd });
    expect(lookup.stderr).toBe('stevedore: --store-lookup "group" needs --store-group\n');
    const group = await run(['storage', '--port', '0'], {
      cwd,
      env: { STEVEDORE_GROUP: 'no-good' },
    });
    expect(group.stderr).toContain('STEVEDORE_GROUP must be 1 to 16 letters and digits');
    const filter = await run(['storage', '--port', '0'], {
      cwd,
      env: { STEVEDORE_CACHE_FILTER: 'maybe' },
    });
    expect(filter.stderr).toContain('STEVEDORE_CACHE_FILTER: "maybe" is neither true nor false');
    for (const { code } of [filter, flag, variable, rate, file, lookup, group])
      expect(code).toBe(2);
  });
});

test('everything that is wrong in file, environment and flags is said at once', async () => {
  const cwd = await temporaryDirectory();
  const config = { prot: 1, trunkSize: '64', workers: 'many' };
  await writeFile(join(cwd, 'stevedore.config.json'), JSON.stringify(config));
  const env = { STEVEDORE_CONNECTIONS: 'x' };
  const wrong = await run(['gateway', '--merge-max-age', '5'], { cwd, env });
  expect([wrong.code, wrong.stderr.trimEnd().split('\n')]).toEqual([
    2,
    [
      'stevedore: stevedore.config.json: prot is no option; did you mean port?',
      'stevedore: stevedore.config.json: trunkSize: "64" has no unit; write it like 64MiB (B, KiB, MiB, GiB, TiB)',
      'stevedore: STEVEDORE_CONNECTIONS: "x" is not a whole number',
      'stevedore: --merge-max-age: "5" has no unit; write it like 60s (ms, s, m, h, d)',
    ],
  ]);
  const contradictions = { workers: 'many', peerUrl: 'x', urlSecret: ['short'] };
  await writeFile(join(cwd, 'stevedore.config.json'), JSON.stringify(contradictions));
  const both = await run(['gateway'], { cwd });
  expect(both.stderr.match(/^stevedore: .*(?:peerUrl|workers|urlSecret)/gm)).toHaveLength(4);
  const doctor = await run(['doctor'], { cwd });
  expect(doctor.stdout.match(/^PROBLEM {2}options: /gm)).toHaveLength(4);
  const mistyped = { STEVEDORE_PROT: '1', STEVEDORE_HOTS: 'x' };
  expect((await run(['put', 'x'], { cwd, env: mistyped })).stderr).toBe(
    'stevedore: no command reads STEVEDORE_PROT; did you mean STEVEDORE_PORT?\n' +
      'stevedore: no command reads STEVEDORE_HOTS; did you mean STEVEDORE_HOST?\n',
  );
});

test('the help of a command that talks to a gateway names the variables it reads', async () => {
  for (const name of ['put', 'get', 'stat', 'rm']) {
    const { stdout } = await run([name, '--help']);
    expect(stdout).toContain('STEVEDORE_URL');
    expect(stdout).toContain('STEVEDORE_API_KEY');
  }
});
