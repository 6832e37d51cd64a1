import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startGatewayProcess } from '../../support/gateway-process.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Clients that read slowly what FastDFS has, and nothing on this disk. */

interface Info {
  readonly state: string;
  readonly fileId?: string;
}

async function put(url: string, body: Buffer): Promise<string> {
  const response = await fetch(`${url}/files`, { method: 'POST', body: new Uint8Array(body) });
  return ((await response.json()) as { key: string }).key;
}

async function merged(url: string, key: string): Promise<void> {
  for (;;) {
    const info = (await (await fetch(`${url}/files/${key}/info`)).json()) as Info;
    if (info.state === 'merged') return;
    await sleep(50);
  }
}

async function stalledDownloads(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return Number(/^stevedore_downloads_stalled (\d+)$/m.exec(metrics)?.[1]);
}

function slowReader(url: string, keys: readonly string[]): void {
  const socket: Socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.pause();
  socket.on('error', () => undefined);
  socket.write(keys.map((key) => `GET /files/${key} HTTP/1.1\r\nHost: localhost\r\n\r\n`).join(''));
  onTestFinished(() => {
    socket.destroy();
  });
}

test('readers that stall keep neither others nor merging from the storage', async () => {
  const flags = ['--retain', '0B', '--cache-size', '0B', '--merge-max-age', '200ms'];
  const { url } = await startGatewayProcess(temporaryFolder(), ...flags);
  const large = randomBytes(50_000_000);
  const key = await put(url, large);
  await merged(url, key);
  // More than there are connections to a storage, and one that asks for many at once.
  for (let count = 0; count < 20; count += 1) slowReader(url, [key]);
  slowReader(url, Array<string>(20).fill(key));
  while ((await stalledDownloads(url)) < 20) await sleep(50);
  for (let count = 0; count < 3; count += 1) {
    const response = await fetch(`${url}/files/${key}`);
    expect(response.status).toBe(200);
    expect(Buffer.from(await response.arrayBuffer()).equals(large)).toBe(true);
  }
  await merged(url, await put(url, randomBytes(20_000)));
});
