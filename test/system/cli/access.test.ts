import { chmodSync, chownSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Running, run } from '../../support/cli/run.js';
import { temporaryFolder } from '../../support/temporary.js';

describe('stevedore keys and sign', () => {
  test('make keys and URLs that a running gateway takes', async () => {
    const cwd = temporaryFolder();
    const file = join(cwd, 'keys.json');
    const env = {
      STEVEDORE_API_KEYS: file,
      STEVEDORE_URL_SECRET: 'a secret of the tests,an older one of them',
    };
    const first = await run(['keys', 'add', 'one', '--scopes', 'write,read'], { cwd, env });
    expect(first.code).toBe(0);
    expect(first.stdout).toMatch(/^stv_\w{12}_[\w-]{43}\n$/);
    const args = ['gateway', '--port', '0', '--tracker-port', '0', '--storage-port', '0'];
    const gateway = new Running(args, { cwd, env });
    const url = await gateway.ready();
    expect(gateway.stdout).toContain('uploads and deletes need a key');
    const post = (path: string, key?: string) =>
      fetch(url + path, {
        method: 'POST',
        body: 'x',
        ...(key === undefined ? {} : { headers: { authorization: `Bearer ${key.trim()}` } }),
      });
    expect((await post('/files')).status).toBe(401);
    const stored = await post('/files', first.stdout);
    const { key } = (await stored.json()) as { key: string };

    const signed = await run(['sign', key, '--url', url, '--download'], { cwd, env });
    const downloaded = await fetch(signed.stdout.trim());
    expect(downloaded.headers.get('content-disposition')).toMatch(/^attachment/);
    expect((await fetch(`${url}/files/${key}`)).status).toBe(401);
    const upload = ['sign', '--upload', '--max-size', '1KiB', '--url', url];
    const presigned = await run(upload, { cwd, env });
    expect((await fetch(presigned.stdout.trim(), { method: 'POST', body: 'y' })).status).toBe(201);

    const got = await run(['get', key, '--url', url], {
      cwd,
      env: { ...env, STEVEDORE_API_KEY: first.stdout.trim() },
    });
    expect(got.stdout).toBe('x');

    const second = await run(['keys', 'add', 'two'], { cwd, env });
    const listed = await run(['keys', 'list'], { cwd, env });
    expect(listed.stdout.split('\n').length).toBe(3);
    expect(listed.stdout).not.toContain(second.stdout.trim().slice(-43));
    expect((await run(['keys', 'revoke', 'one'], { cwd, env })).code).toBe(0);
    const status = async (text: string) => (await post('/files', text)).status;
    await expect.poll(() => status(first.stdout), { timeout: 20_000 }).toBe(401);
    expect(await status(second.stdout)).toBe(201);
  });

  test('leave the file to the user who owns it', async () => {
    const cwd = temporaryFolder();
    const file = join(cwd, 'keys.json');
    expect((await run(['keys', 'add', 'one', '--file', file], { cwd })).code).toBe(0);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const gateway = process.getuid?.() === 0 ? 12_345 : statSync(file).uid;
    chownSync(file, gateway, statSync(file).gid);
    chmodSync(file, 0o640);
    expect((await run(['keys', 'add', 'two', '--file', file], { cwd })).code).toBe(0);
    expect([statSync(file).uid, statSync(file).mode & 0o777]).toEqual([gateway, 0o640]);
  });

  test('say what is wrong', async () => {
    const cwd = temporaryFolder();
    const missing = await run(['keys', 'list', '--file', 'typo.json'], { cwd });
    expect(missing).toMatchObject({ code: 1, stderr: 'stevedore: typo.json does not exist\n' });
    const wrong = [
      ['keys', 'add'],
      ['keys', 'add', 'x', '--scopes', 'all'],
      ['keys', 'revoke', 'nobody'],
      ['keys', 'change'],
      ['sign', 'AZ'],
    ];
    for (const args of wrong) {
      const { code, stderr } = await run(args, { cwd });
      expect([code, stderr.trim().split('\n').length], args.join(' ')).toEqual([2, 1]);
    }
  });
});
