import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { run } from '../../support/cli/run.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Variables, flags and the file of options, as the commands read them. */

const MISTYPED = { STEVEDORE_PROT: '1' };
const REFUSAL = 'no command reads STEVEDORE_PROT; did you mean STEVEDORE_PORT?';

test.each([
  ['gateway --port 0'],
  ['tracker --port 0'],
  ['storage --port 0'],
  ['fsck'],
  ['keys list'],
  ['put x'],
  ['stat x'],
])('a mistyped variable is refused by %s', async (line) => {
  const result = await run(line.split(' '), { cwd: temporaryFolder(), env: MISTYPED });
  expect(result).toEqual({ code: 2, stdout: '', stderr: `stevedore: ${REFUSAL}\n` });
});

test('a mistyped variable is a problem that the doctor finds', async () => {
  const ports = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];
  const at = { cwd: temporaryFolder(), env: MISTYPED };
  const { code, stdout } = await run(['doctor', ...ports], at);
  expect([code, stdout]).toEqual([1, expect.stringContaining(`PROBLEM  options: ${REFUSAL}\n`)]);
});

test('a variable that another command reads, or Kubernetes set, is not mistyped', async () => {
  const env = {
    STEVEDORE_URL: 'http://127.0.0.1:1',
    STEVEDORE_API_KEY: 'x',
    STEVEDORE_STORAGE: '127.0.0.1:1',
    STEVEDORE_STORE_PATHS: 'x',
    STEVEDORE_STORE_LOOKUP: 'group',
    STEVEDORE_SERVICE_HOST: '10.0.0.1',
    STEVEDORE_SERVICE_PORT_HTTP: '8080',
    STEVEDORE_PORT_8080_TCP_ADDR: '10.0.0.1',
    STEVEDORE_WEB_PORT: 'tcp://10.0.0.1:8080',
    STEVEDORE_PORT: 'tcp://10.0.0.1:8080',
    STEVEDORE_TRACKER_PORT: 'tcp://10.0.0.1:22122',
  };
  const at = { cwd: temporaryFolder(), env };
  expect(await run(['keys', 'add', 'one'], at)).toMatchObject({ code: 0 });
});

test('files and variables may have what editors and shells add', async () => {
  const cwd = temporaryFolder();
  const text = JSON.stringify({ trunkSize: '64', apiKeys: 'other.json\n' });
  await writeFile(join(cwd, 'stevedore.config.json'), `\ufeff${text}\r\n`);
  const wrong = await run(['gateway'], { cwd });
  expect(wrong.stderr).toContain('stevedore.config.json: trunkSize: "64" has no unit');
  expect(await run(['keys', 'add', 'one'], { cwd })).toMatchObject({ code: 0 });
  const file = join(cwd, 'other.json');
  const keys = await readFile(file, 'utf8');
  await writeFile(file, `\ufeff${keys}`);
  const env = { STEVEDORE_API_KEYS: `${file}\n` };
  expect((await run(['keys', 'list'], { cwd: temporaryFolder(), env })).stdout).toContain('one');
});

test.each<[string, string, NodeJS.ProcessEnv?]>([
  ['gateway --trunk-size 64', '--trunk-size: "64" has no unit; write it like 64MiB'],
  ['storage', 'STEVEDORE_MOVE_RATE: "fast" is not a whole', { STEVEDORE_MOVE_RATE: 'fast' }],
  ['scrub --rate 5', '--rate: "5" has no unit'],
  ['tracker --store-lookup group', 'stevedore: --store-lookup "group" needs --store-group\n'],
  ['storage', 'STEVEDORE_GROUP must be 1 to 16 letters and digits', { STEVEDORE_GROUP: 'no-good' }],
  [
    'storage',
    'STEVEDORE_CACHE_FILTER: "maybe" is neither true nor false',
    { STEVEDORE_CACHE_FILTER: 'maybe' },
  ],
])('a wrong option is named as it was given: %s, %s', async (line, named, env = {}) => {
  const { code, stderr } = await run(line.split(' '), { cwd: temporaryFolder(), env });
  expect([code, stderr]).toEqual([2, expect.stringContaining(named)]);
});

test('everything that is wrong in file, environment and flags is said at once', async () => {
  const cwd = temporaryFolder();
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
    `stevedore: ${REFUSAL}\n` +
      'stevedore: no command reads STEVEDORE_HOTS; did you mean STEVEDORE_HOST?\n',
  );
});

test.each(['put', 'get', 'stat', 'rm'])('the help of %s names the variables', async (name) => {
  const { stdout } = await run([name, '--help']);
  expect(stdout).toContain('STEVEDORE_URL');
  expect(stdout).toContain('STEVEDORE_API_KEY');
});
