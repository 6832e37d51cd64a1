import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { commandEnvironment, MAIN, run } from '../../support/cli/run.js';

test('ls prints a line for each file that is asked for, oldest first', async () => {
  const { put, env, mayNot } = await keyedGateway();
  const one = await put('album/1.txt', 'one', 'album');
  const two = await put('2.txt', '22');
  const three = await put('album/3.txt', '333', 'album');
  const ls = async (...args: string[]) => {
    const { code, stdout, stderr } = await run(['ls', ...args], { env });
    expect([code, stderr]).toEqual([0, '']);
    return stdout.trimEnd().split('\n');
  };
  expect(await ls()).toEqual([
    `${one.key}  3  ${one.stagedAt}  album/1.txt`,
    `${two.key}  2  ${two.stagedAt}  2.txt`,
    `${three.key}  3  ${three.stagedAt}  album/3.txt`,
  ]);
  expect(await ls('--group', 'album', '--keys')).toEqual([one.key, three.key]);
  expect(await ls('--order', 'newest', '--keys')).toEqual([three.key, two.key, one.key]);
  expect(await ls('--prefix', 'album/', '--until', two.stagedAt, '--keys')).toEqual([one.key]);
  expect(await ls('--type', 'image/*')).toEqual(['']);
  const [json] = await ls('--prefix', '2', '--json');
  expect(JSON.parse(json!)).toMatchObject({ key: two.key, name: '2.txt', size: 2 });
  await put('4.txt', '4', 'Zoo');
  expect(await ls('--groups')).toEqual(['Zoo', 'album']);
  expect(await ls('--groups', '--json')).toEqual(['{"group":"Zoo"}', '{"group":"album"}']);
  const cut = await run(['ls', '--groups', '--limit', '1'], { env });
  expect([cut.code, cut.stdout]).toEqual([0, 'Zoo\n']);
  expect(cut.stderr).toBe('there are more groups: --limit shows more of them\n');
  const some = await run(['ls', '--limit', '3'], { env });
  expect(some.stdout.split('\n')).toHaveLength(4);
  expect(some.stderr).toBe('there are more files: --limit shows more of them\n');
  expect(await ls('--limit', '4')).toHaveLength(4);
  for (const other of [['--keys'], ['--prefix', 'a'], ['--order', 'newest']]) {
    expect((await run(['ls', '--groups', ...other], { env })).code).toBe(2);
  }
  const refused = await run(['ls'], { env: mayNot });
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('scope');
  const wrong = await run(['ls', '--since', 'yesterday'], { env });
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toContain('RFC 3339');
});

test('ls takes more pages than one, and ends when its reader has gone', async () => {
  const { put, env } = await keyedGateway();
  for (let count = 0; count < 1500; count += 100) {
    const some = Array.from({ length: 100 }, (_, at) => put(`${count + at}`, 'x'));
    await Promise.all(some);
  }
  const { stdout } = await run(['ls', '--keys'], { env });
  expect(new Set(stdout.trimEnd().split('\n')).size).toBe(1500);
  const command = `"$0" "$1" ls | head -n 1`;
  const args = ['-c', command, process.execPath, MAIN];
  const piped = await promisify(execFile)('sh', args, { env: commandEnvironment(env) });
  expect(piped.stderr).toBe('');
  expect(piped.stdout.split('\n')).toHaveLength(2);
});
