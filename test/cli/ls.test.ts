import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { startGateway } from '@stevedore/gateway';
import { expect, onTestFinished, test } from 'vitest';
import { writeKeyFile } from '../../gateway/dist/access/api-keys.js';
import { newKey } from '../gateway/guarded.js';
import { commandEnvironment, MAIN, run, temporaryDirectory } from './run.js';

async function gateway() {
  const directory = await temporaryDirectory();
  const apiKeys = `${directory}/keys.json`;
  const all = newKey({ scopes: ['read', 'write', 'delete', 'list'] });
  const reads = newKey({ scopes: ['read'] });
  await writeKeyFile(apiKeys, [all.key, reads.key]);
  const ports = { port: 0, trackerPort: 0, storagePort: 0 } as const;
  const started = await startGateway({ ...ports, directory: `${directory}/store`, apiKeys });
  onTestFinished(() => started.close());
  const env = (key: string) => ({ STEVEDORE_URL: started.url, STEVEDORE_API_KEY: key });
  const put = async (name: string, text: string, group = '') => {
    const headers = { 'x-api-key': all.text, 'x-filename': name, 'content-type': 'text/plain' };
    const grouped = { ...headers, ...(group ? { 'x-affinity-group': group } : {}) };
    const asked = { method: 'POST', headers: grouped, body: text };
    const answer = await fetch(`${started.url}/files`, asked);
    return (await answer.json()) as { readonly key: string; readonly stagedAt: string };
  };
  return { put, env: env(all.text), mayNot: env(reads.text) };
}

test('ls prints a line for each file that is asked for, oldest first', async () => {
  const { put, env, mayNot } = await gateway();
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
  expect(await ls('--prefix', 'album/', '--until', three.stagedAt, '--keys')).toEqual([one.key]);
  expect(await ls('--type', 'image/*')).toEqual(['']);
  const [json] = await ls('--prefix', '2', '--json');
  expect(JSON.parse(json!)).toMatchObject({ key: two.key, name: '2.txt', size: 2 });
  const refused = await run(['ls'], { env: mayNot });
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('scope');
  const wrong = await run(['ls', '--since', 'yesterday'], { env });
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toContain('ISO 8601');
});

test('ls takes more pages than one, and ends when its reader has gone', async () => {
  const { put, env } = await gateway();
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
