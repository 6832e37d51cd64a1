import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Turns } from '@stevedore/middleware/core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { RawConnection, running, until } from '../../support/gateway/harness.js';
import { startGatewayProcess } from '../../support/gateway-process.js';
import { COMPILED } from '../../support/paths.js';
import { quiet } from '../../support/quiet.js';
import { serving } from '../../support/serving.js';
import { soon } from '../../support/soon.js';
import { temporaryFolder } from '../../support/temporary.js';

/**
 * Clients that ask and do not read, and that upload and do not end. STEVEDORE_TEST_STALLED and
 * STEVEDORE_TEST_PIPELINED say how many readers there are in the largest test.
 */

const STALLED = Number(process.env.STEVEDORE_TEST_STALLED ?? 300);
const PIPELINED = Number(process.env.STEVEDORE_TEST_PIPELINED ?? 20);
const REQUESTS = 500;
const FILES = 10;
const FILE_BYTES = 4 * 2 ** 20;
const LIMIT_MIB = 300;
const UPLOADS = 200;
const UPLOAD_BYTES = 100_000_000;
const SENT_BYTES = Math.min(
  Number(process.env.STEVEDORE_TEST_UPLOAD_BYTES ?? 5_000_000),
  UPLOAD_BYTES - 1,
);

function residentMib(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib) / 1024;
}

/** Clients in a process, until the test ends. Resolves with what it says once it has done its part. */
function clients(script: string, ...args: readonly unknown[]): Promise<string> {
  const file = join(COMPILED, 'support/attack', `${script}-process.js`);
  const stdio = ['ignore', 'pipe', 'inherit'] as const;
  const child = spawn(process.execPath, [file, ...args.map(String)], { stdio: [...stdio] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return new Promise((done, fail) => {
    child.stdout!.once('data', (text: Buffer) => done(String(text).trim()));
    child.once('exit', (code) => fail(new Error(`${script} ended with ${code}`)));
  });
}

/** The most memory that the gateway had while this went on. */
async function peakMib({ pid }: ChildProcess, work: () => Promise<unknown>): Promise<number> {
  let peak = 0;
  const look = () => {
    peak = Math.max(peak, residentMib(pid!));
  };
  const sampling = setInterval(look, 50);
  await work().finally(() => clearInterval(sampling));
  look();
  console.log(`peak ${Math.round(peak)} MiB`);
  return peak;
}

async function figure(url: string, name: string): Promise<number> {
  const figures = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^stevedore_${name} (\\d+)$`, 'm').exec(figures)?.[1]);
}

const stalledDownloads = (url: string): Promise<number> => figure(url, 'downloads_stalled');

async function upload(url: string, body: Buffer): Promise<string> {
  const response = await fetch(`${url}/files`, { method: 'POST', body: new Uint8Array(body) });
  return ((await response.json()) as { key: string }).key;
}

/** Asks for the files one right after the other, and reads nothing. */
function ask(port: number, keys: readonly string[]): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.pause();
  socket.on('error', () => undefined);
  socket.write(keys.map((key) => `GET /files/${key} HTTP/1.1\r\nHost: localhost\r\n\r\n`).join(''));
  onTestFinished(() => {
    socket.destroy();
  });
  return socket;
}

/** The bodies of the answers, each of so many bytes. */
async function readAll(socket: Socket, lengths: readonly number[]): Promise<Buffer[]> {
  const bodies: Buffer[] = [];
  let chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes < lengths[bodies.length]!) continue;
    let received: Buffer = Buffer.concat(chunks);
    for (;;) {
      const head = received.indexOf('\r\n\r\n');
      const end = head + 4 + lengths[bodies.length]!;
      if (head < 0 || received.length < end) break;
      bodies.push(received.subarray(head + 4, end));
      received = received.subarray(end);
      if (bodies.length === lengths.length) return bodies;
    }
    chunks = [received];
    bytes = received.length;
  }
  return bodies;
}

test.skipIf(process.platform !== 'linux')(
  `${STALLED} stalled readers and ${PIPELINED} that ask for ${REQUESTS} files stay below ${LIMIT_MIB} MiB`,
  { timeout: 580_000 },
  async () => {
    const { url, child: gateway } = await startGatewayProcess(temporaryFolder());
    const keys: string[] = [];
    for (let count = 0; count < FILES; count += 1) {
      keys.push(await upload(url, Buffer.alloc(FILE_BYTES, count)));
    }
    const small = randomBytes(20_000);
    const key = await upload(url, small);
    const peak = await peakMib(gateway, async () => {
      await clients('stalled', url, STALLED, PIPELINED, REQUESTS, ...keys);
      // They were let in, and hold what they may: no refusal is what keeps memory free.
      await expect.poll(() => stalledDownloads(url)).toBeGreaterThan(10);
      for (let count = 0; count < 20; count += 1) {
        const fresh = await fetch(`${url}/files/${key}`, { headers: { connection: 'close' } });
        expect(Buffer.from(await fresh.arrayBuffer()).equals(small)).toBe(true);
      }
    });
    expect(peak).toBeLessThan(LIMIT_MIB);
  },
);

/**
 * Half of them of a length that is not said. STEVEDORE_TEST_UPLOAD_BYTES says how much of each is sent
 * before it is measured: more than what any body may hold of memory before it goes to the disk
 * (4 MiB), so that all of them stream. With 100000000 all but the last byte is sent: 20 GB, all of
 * them still in flight.
 */
test.skipIf(process.platform !== 'linux')(
  `${UPLOADS} uploads of 100 MB in flight stay below ${LIMIT_MIB} MiB`,
  { timeout: 580_000 },
  async () => {
    const { url, child: gateway } = await startGatewayProcess(temporaryFolder());
    const peak = await peakMib(gateway, async () => {
      const said = await clients('trickle', url, UPLOADS, UPLOAD_BYTES, SENT_BYTES);
      expect(said).toBe(`in flight ${UPLOADS}`);
    });
    expect((await fetch(`${url}/health/live`)).status).toBe(200);
    expect(peak).toBeLessThan(LIMIT_MIB);
  },
);

test('readers that stall keep neither others nor merging from the storage', async () => {
  const flags = ['--retain', '0B', '--cache-size', '0B', '--merge-max-age', '200ms'];
  const { url } = await startGatewayProcess(temporaryFolder(), ...flags);
  const stored = async (body: Buffer) => {
    const key = await upload(url, body);
    await soon(async () => {
      const info = await (await fetch(`${url}/files/${key}/info`)).json();
      expect(info).toMatchObject({ state: 'merged' });
    });
    return key;
  };
  const large = randomBytes(50_000_000);
  const key = await stored(large);
  // More than there are connections to a storage, and one that asks for many at once.
  const port = Number(new URL(url).port);
  for (let count = 0; count < 20; count += 1) ask(port, [key]);
  ask(port, Array<string>(20).fill(key));
  while ((await stalledDownloads(url)) < 20) await sleep(50);
  for (let count = 0; count < 3; count += 1) {
    const response = await fetch(`${url}/files/${key}`);
    expect(response.status).toBe(200);
    expect(Buffer.from(await response.arrayBuffer()).equals(large)).toBe(true);
  }
  await stored(randomBytes(20_000));
});

describe('many requests at once on one connection', () => {
  test('are answered one after the other, in their order', async () => {
    const { port, store } = await running();
    const bodies = Array.from({ length: 20 }, (_, index) => randomBytes(1 + index * 5_000));
    const keys: string[] = [];
    for (const body of bodies) keys.push((await store.put(body)).key);
    let underWay = 0;
    let most = 0;
    const get = store.get.bind(store);
    store.get = async (id) => {
      underWay += 1;
      most = Math.max(most, underWay);
      await sleep(2);
      underWay -= 1;
      return get(id);
    };
    const asked = Array.from({ length: 500 }, (_, index) => index % bodies.length);
    const socket = ask(
      port,
      asked.map((index) => keys[index]!),
    );
    const answers = await readAll(
      socket,
      asked.map((index) => bodies[index]!.length),
    );
    expect(answers).toHaveLength(500);
    const isRight = answers.every((answer, index) => answer.equals(bodies[asked[index]!]!));
    expect(isRight).toBe(true);
    expect(most).toBe(1);
  });

  test('are not even parsed beyond the bound', async () => {
    const turns = new Turns(10);
    let seen = 0;
    const server = createServer((request, response) => {
      seen += 1;
      void turns.wait(request, response);
    });
    const url = await serving(server);
    const ended = new Promise((resolve) => {
      server.once('connection', (socket: Socket) => socket.once('close', resolve));
    });
    ask(Number(new URL(url).port), Array<string>(500).fill('key'));
    await ended;
    expect(seen).toBeGreaterThan(10);
    expect(seen).toBeLessThan(20);
  });

  test('are forgotten when their client goes', async () => {
    const { port, store } = await running();
    const { key } = await store.put(randomBytes(8 * 2 ** 20));
    const socket = ask(port, Array<string>(100).fill(key));
    await until(() => store.asked.length > 0);
    socket.destroy();
    await quiet();
    expect(store.asked).toHaveLength(1);
  });
});

describe('a client that takes nothing', () => {
  test('is ended', async () => {
    const { port, url, store } = await running({ limits: { downloadStallMs: 300 } });
    const { key } = await store.put(randomBytes(16 * 2 ** 20));
    const socket = ask(port, [key]);
    let received = 0;
    await until(() => store.asked.length > 0);
    while ((await figure(url, 'downloads_ended_for_stall_total')) !== 1) await sleep(50);
    socket.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    socket.resume();
    await new Promise((closed) => socket.once('close', closed));
    expect(received).toBeLessThan(16 * 2 ** 20);
  });

  test('does not keep others from their files, and has its own when it reads on', async () => {
    const limits = { maxUnsentBytes: 2 ** 20, downloadStallMs: 60_000 };
    const { port, url, store } = await running({ limits });
    const bodies = Array.from({ length: 8 }, () => randomBytes(12 * 2 ** 20));
    const keys: string[] = [];
    for (const body of bodies) keys.push((await store.put(body)).key);
    const sockets = keys.map((key) => ask(port, [key]));
    await until(() => store.asked.length === keys.length);
    while ((await stalledDownloads(url)) !== keys.length) await sleep(50);
    const small = randomBytes(30_000);
    const { key } = await store.put(small);
    const fresh = await fetch(`${url}/files/${key}`);
    expect(Buffer.from(await fresh.arrayBuffer()).equals(small)).toBe(true);
    const read = await Promise.all(
      sockets.map(async (socket, index) => {
        const [answer] = await readAll(socket, [bodies[index]!.length]);
        return answer?.equals(bodies[index]!);
      }),
    );
    expect(read).toEqual(keys.map(() => true));
  });

  test('makes room where it has asked for nothing: every client is answered', async () => {
    const { port } = await running({ limits: { maxConnections: 4 } });
    const connections: RawConnection[] = [];
    for (let count = 0; count < 12; count += 1) {
      const connection = new RawConnection(port);
      connections.push(connection);
      void connection.send('GET /files/none HTTP/1.1\r\nHost: x\r\n\r\n');
      await connection.sees(/HTTP\/1\.1 \d/);
    }
    const open = () => connections.filter(({ closed }) => !closed).length;
    await expect.poll(open).toBeLessThanOrEqual(4);
  });

  test('gives its connection to one that comes', async () => {
    const { port, store } = await running({ limits: { maxConnections: 4 } });
    const { key } = await store.put(randomBytes(16 * 2 ** 20));
    const stalled = Array.from({ length: 4 }, () => ask(port, [key]));
    await until(() => store.asked.length === 4);
    await quiet();
    const connection = new RawConnection(port);
    void connection.send('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n');
    expect(await connection.sees(/\r\n\r\n/)).toContain('HTTP/1.1 200');
    expect(stalled.every((socket) => !socket.destroyed)).toBe(true);
  });
});
