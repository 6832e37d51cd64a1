import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../support/temporary.js';

const EXAMPLES = join(import.meta.dirname, '../../examples');

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test.each(['http', 'express', 'fastify', 'multer'])(
  'the app of five lines with %s takes and gives pictures, and nothing else',
  async (name) => {
    const port = await freePort();
    const child = spawn(process.execPath, [`dist/middleware/${name}.js`], {
      cwd: EXAMPLES,
      env: { ...process.env, PORT: String(port), DIRECTORY: temporaryFolder() },
      stdio: 'inherit',
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const url = `http://localhost:${port}/photos`;
    const form = (type: string, bytes: Uint8Array) => {
      const data = new FormData();
      data.append('photo', new File([new Uint8Array(bytes)], 'photo', { type }));
      return data;
    };
    const photo = randomBytes(100_000);
    await expect
      .poll(
        () =>
          fetch(url, { method: 'POST', body: form('image/jpeg', photo) }).catch(() => undefined),
        {
          timeout: 20_000,
        },
      )
      .toMatchObject({ status: 201 });
    const again = await fetch(url, { method: 'POST', body: form('image/jpeg', photo) });
    const [receipt] = ([] as { key: string }[]).concat((await again.json()) as { key: string });
    const got = await fetch(`${url}/${receipt!.key}`);
    expect(got.headers.get('content-type')).toBe('image/jpeg');
    expect(Buffer.from(await got.arrayBuffer()).equals(photo)).toBe(true);
    const refused = await fetch(url, {
      method: 'POST',
      body: form('text/html', Buffer.from('<p>')),
    });
    expect(refused.status).toBe(415);
    expect(((await refused.json()) as { code: string }).code).toBe('type_not_allowed');
    expect((await fetch(`${url}/${'A'.repeat(22)}`)).status).toBe(404);
  },
);
