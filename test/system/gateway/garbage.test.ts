import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Pool } from 'undici';
import { expect, test } from 'vitest';
import { COMMAND } from '../../support/gateway-process.js';
import { readyAddress } from '../../support/ready.js';
import { ofTest, temporaryFolder } from '../../support/temporary.js';

/**
 * What uploads, and the trunks that are made of them, leave to the garbage collector. Bytes in
 * ArrayBuffers count: each 64 MiB of them starts a full mark of the heap.
 */

const UPLOADS = 10_000;
const BYTES = 20_000;
const CONNECTIONS = 20;
/**
 * `[1234:0x5581f0]  812 ms: Mark-Compact 18.3 (35.1) -> 15.0 (36.0) MB, …`; those with `(reduce)`
 * shrink the heap of a thread that rests.
 */
const FULL_MARK = /^\[\d+:0x[0-9a-f]+\].* Mark-Compact (?!\(reduce\))/;
const ANY_COLLECTION = /^\[\d+:(0x[0-9a-f]+)\].* (?:Mark-Compact|Scavenge)/;

async function started() {
  const ports = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];
  const args = ['--trace-gc', COMMAND, 'gateway', '--directory', temporaryFolder(), ...ports];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  ofTest(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  /** Full marks by heap; the first heap is the main thread's. */
  const marks = new Map<string, number>();
  const url = await new Promise<string>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const address = readyAddress(line);
      if (address !== undefined) resolve(address);
      const [, heap] = ANY_COLLECTION.exec(line) ?? [];
      if (heap === undefined) return;
      marks.set(heap, (marks.get(heap) ?? 0) + (FULL_MARK.test(line) ? 1 : 0));
    });
  });
  return { url, counts: () => [...marks.values()] };
}

async function upload(url: string): Promise<void> {
  const body = Buffer.alloc(BYTES, 'a small file ');
  const request = {
    path: '/files',
    method: 'POST',
    headers: { 'content-type': 'image/gif' },
    body,
  };
  const pool = new Pool(url, { connections: CONNECTIONS });
  let left = UPLOADS;
  const client = async (): Promise<void> => {
    while (left-- > 0) {
      const answer = await pool.request(request as Parameters<Pool['request']>[0]);
      expect(answer.statusCode).toBe(201);
      await answer.body.dump();
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, client));
  await pool.close();
}

async function metric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^stevedore_${name} (\\d+)`, 'm').exec(text)?.[1]);
}

test('10,000 uploads that are merged make at most two full marks, and one in each thread', {
  timeout: 240_000,
}, async () => {
  const { url, counts } = await started();
  await upload(url);
  const before = counts();
  const stored = await metric(url, 'trunks');
  await upload(url);
  await expect.poll(() => metric(url, 'trunks'), { timeout: 60_000 }).toBeGreaterThan(stored + 1);
  const after = counts();
  const [main = 0, ...threads] = after.map((count, index) => count - (before[index] ?? 0));
  expect(threads.length).toBeGreaterThan(0);
  expect(main).toBeLessThanOrEqual(2);
  for (const thread of threads) expect(thread).toBeLessThanOrEqual(1);
});
