import { expect, test, vi } from 'vitest';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { run } from '../../support/cli/run.js';
import { temporaryFolder } from '../../support/temporary.js';

/** `stevedore cp`: files of one gateway at another. */

/** Each starts several processes. */
vi.setConfig({ testTimeout: 180_000 });

async function setUp() {
  const [from, to] = [await keyedGateway(), await keyedGateway()];
  const cwd = temporaryFolder();
  const env = { ...from.env, STEVEDORE_TO_API_KEY: to.env.STEVEDORE_API_KEY };
  const copy = (...args: string[]) => run(['cp', ...args], { cwd, env });
  const fetched = async (key: string | undefined) => {
    const answer = await fetch(`${to.started.url}/files/${key}`, { headers: to.header });
    return [answer.status, answer.headers.get('content-type'), await answer.text()];
  };
  const listed = async (group: string) => {
    const url = `${to.started.url}/files?group=${group}`;
    const answer = await fetch(url, { headers: to.header });
    const { files } = (await answer.json()) as { readonly files: readonly { name: string }[] };
    return files.map(({ name }) => name).sort();
  };
  return { from, to, copy, fetched, listed };
}

test('copies have the bytes, names and types, and a second run sends none', async () => {
  const { from, to, copy, fetched, listed } = await setUp();
  await from.put('one', 'first', 'g');
  await from.put('two', 'second', 'g');
  await from.put('another', 'third');
  const first = await copy('--group', 'g', '--to', to.started.url);
  expect([first.code, first.stderr]).toEqual([0, 'stored 2 files, 11 B\n']);
  const keys = first.stdout
    .trim()
    .split('\n')
    .map((line) => line.split('  ')[1]);
  const texts = await Promise.all(keys.map(fetched));
  expect(texts.sort()).toEqual(['first', 'second'].map((text) => [200, 'text/plain', text]));
  expect(await listed('g')).toEqual(['one', 'two']);
  const again = await copy('--group', 'g', '--to', to.started.url);
  expect([again.code, again.stdout.split('\n').sort()]).toEqual([
    0,
    first.stdout.split('\n').sort(),
  ]);
  expect(await listed('g')).toEqual(['one', 'two']);
});

test('single files are named by key; what is not there fails the command, and no more', async () => {
  const { from, to, copy, fetched } = await setUp();
  const { key } = await from.put('one', 'first');
  const { code, stdout } = await copy(key, '--to', to.started.url, '--to-group', 'h');
  expect([code, await fetched(stdout.trim().split('  ')[1])]).toEqual([
    0,
    [200, 'text/plain', 'first'],
  ]);
  const missing = await copy('AAAAAAAAAAAAAAAAAAAAAA', key, '--to', to.started.url);
  expect([missing.code, missing.stdout.startsWith(`${key}  `)]).toEqual([1, true]);
  expect((await copy(key)).code).toBe(2);
});
