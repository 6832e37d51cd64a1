import { readFileSync } from 'node:fs';
import { expect, test, vi } from 'vitest';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { run } from '../../support/cli/run.js';
import { ROOT } from '../../support/paths.js';

/** Commands that look at files and at the command itself. */

/** Each starts several processes. */
vi.setConfig({ testTimeout: 180_000 });

test('ls ends at its limit and says that there is more', async () => {
  const { put, env } = await keyedGateway();
  for (const name of ['a', 'b', 'c']) await put(name, name);
  const some = await run(['ls', '--limit', '2'], { env });
  expect(some.stdout.split('\n')).toHaveLength(3);
  expect(some.stderr).toBe('there are more files: --limit shows more of them\n');
  const all = await run(['ls', '--limit', '3'], { env });
  expect([all.stdout.split('\n').length, all.stderr]).toEqual([4, '']);
});

test('version tells the version of the gateway as well', async () => {
  const { env } = await keyedGateway();
  const { version } = JSON.parse(readFileSync(`${ROOT}/gateway/package.json`, 'utf8')) as {
    version: string;
  };
  const { code, stdout } = await run(['version'], { env });
  expect([code, stdout]).toEqual([
    0,
    `stevedore ${version}\ngateway ${version} at ${env.STEVEDORE_URL}\n`,
  ]);
  const gone = await run(['version', '--url', 'http://127.0.0.1:1']);
  expect([gone.code, gone.stdout]).toEqual([1, `stevedore ${version}\n`]);
});

test('every command says what its exit codes mean', async () => {
  const { stdout } = await run(['put', '--help']);
  expect(stdout).toMatch(/\nExit codes: 0 done, 1 failed, 2 wrong usage\.\n$/);
});
