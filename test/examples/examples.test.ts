import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../support/temporary.js';

const EXAMPLES = join(import.meta.dirname, '../../examples');

test('the script stores, reads, merges and deletes', () => {
  const output = execFileSync('npm', ['run', '--silent', 'script'], {
    cwd: EXAMPLES,
    encoding: 'utf8',
  });
  expect(output.match(/safe on disk: [A-Za-z0-9_-]{22} {2}/g)?.length).toBe(3);
  expect(output).toContain('read back:    <h1>Hello</h1>');
  expect(output.match(/FastDFS id: {3}group1\/M00\/\S+\.(html|css|jpg)\n/g)?.length).toBe(3);
  expect(output).toContain('deleted:      style.css');
});

test('the express app takes, gives and deletes photographs, and ends on SIGTERM', async () => {
  const child = spawn(process.execPath, ['dist/express-app.js'], {
    cwd: EXAMPLES,
    env: { ...process.env, PORT: '0', DIRECTORY: temporaryFolder() },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout });
  const line = await new Promise<string>((resolve) => lines.once('line', resolve));
  const url = line.replace('ready ', '');
  const photo = randomBytes(100_000);
  const posted = await fetch(`${url}?name=photo.jpg`, {
    method: 'POST',
    body: photo,
    headers: { 'content-type': 'image/jpeg' },
  });
  expect(posted.status).toBe(201);
  const receipt = (await posted.json()) as { url: string };
  const photoUrl = new URL(receipt.url, url);
  const got = await fetch(photoUrl);
  expect(Buffer.from(await got.arrayBuffer()).equals(photo)).toBe(true);
  expect(got.headers.get('content-type')).toBe('image/jpeg');
  expect((await fetch(photoUrl, { method: 'DELETE' })).status).toBe(204);
  expect((await fetch(photoUrl)).status).toBe(404);
  expect((await fetch(`${url}/nonsense`)).status).toBe(404);
  const tooLarge = await fetch(url, { method: 'POST', body: randomBytes(10_000_001) }).catch(
    () => null,
  );
  // Refused while it is still sent: the answer or the closed connection, whichever comes first.
  expect([413, undefined]).toContain(tooLarge?.status);
  child.kill('SIGTERM');
  expect(await exited).toBe(0);
});
