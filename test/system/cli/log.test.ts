import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { Status, uploadFile } from '@stevedore/protocol';
import { expect, test } from 'vitest';
import { prettyLine } from '../../../gateway/dist/observe/log-format.js';
import { seldom } from '../../../gateway/dist/observe/seldom.js';
import { Running } from '../../support/cli/run.js';
import { mountSmallDisk, needsMount } from '../../support/small-disk.js';
import { RawClient, trackerOf, until } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What commands that run until a signal write: one format at a time. */

const ANY_PORTS = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];

/** A tracker that closes every connection. */
async function badTracker(): Promise<string> {
  const server = createServer((socket: Socket) => void socket.destroy());
  server.listen(0, '127.0.0.1').unref();
  await once(server, 'listening');
  return `127.0.0.1:${(server.address() as { port: number }).port}`;
}

test.each([
  ['gateway', ...ANY_PORTS, '--log-level', 'info'],
  ['tracker', '--port', '0'],
  ['storage', '--port', '0', '--trackers', await badTracker()],
])('where nobody watches, each line of both streams of a %s is JSON', async (...args) => {
  const running = new Running(args, { cwd: temporaryFolder() });
  const address = await running.ready();
  if (args[0] === 'gateway') await fetch(`${address}/files/none`);
  running.process.kill('SIGTERM');
  const { code, stdout, stderr } = await running.result();
  const lines = (stdout + stderr).trimEnd().split('\n');
  const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(parsed[0]).toMatchObject({ level: 'info', msg: 'ready', address });
  expect(parsed.at(-1)).toMatchObject({ msg: 'SIGTERM: finishing requests in progress' });
  for (const { level, time } of parsed) {
    expect(level).toMatch(/^(?:info|warn|error)$/);
    expect(new Date(String(time)).toISOString()).toBe(time);
  }
  expect(code).toBe(0);
});

test('--log pretty has no JSON: a banner, then lines for people', async () => {
  const cwd = temporaryFolder();
  const flags = ['--log', 'pretty', '--log-level', 'info'];
  const running = new Running(['gateway', ...ANY_PORTS, ...flags], { cwd });
  const url = await running.ready();
  expect(running.stdout).toMatch(/^stevedore \d.*\n( {2}\S+ +\S.*\n)+ready http:\S+\n$/);
  await fetch(`${url}/health/live`);
  running.process.kill('SIGTERM');
  const { stderr } = await running.result();
  expect(stderr).toMatch(/^\d\d:\d\d:\d\d INFO {2}.*url=\/health\/live/m);
  expect(stderr).toContain('\nSIGTERM: finishing requests in progress\n');
  expect(stderr).not.toContain('{"');
});

test('a line for people has the messages and codes of an error and its causes', () => {
  const line = {
    ...{ level: 'warn', time: '2026-03-01T12:34:56.789Z', msg: 'background' },
    err: {
      ...{ type: 'StoreError', code: 'unavailable', message: 'no storage takes the trunk' },
      cause: { code: 'ECONNREFUSED', message: 'connect' },
    },
  };
  expect(prettyLine(JSON.stringify(line))).toBe(
    '12:34:56 WARN  background no storage takes the trunk (unavailable) connect (ECONNREFUSED)\n',
  );
});

test('a trouble that repeats is told once a minute, with how often it was not', () => {
  let nowMs = 0;
  const told: string[] = [];
  const hear = seldom(
    ({ message }) => message,
    (text) => told.push(text),
    () => nowMs,
  );
  const tell = (...texts: string[]) => {
    for (const text of texts) hear(new Error(text));
  };
  tell('full', 'full', 'away', 'full');
  expect(told).toEqual(['full', 'away']);
  nowMs = 59_999;
  tell('full');
  expect(told).toEqual(['full', 'away']);
  nowMs = 60_000;
  tell('full', 'away', 'full');
  expect(told.slice(2)).toEqual(['full (3 times more since it was last told)', 'away']);
  // A hundred others later it is new.
  for (let index = 0; index < 100; index++) tell(`other ${index}`);
  tell('full');
  expect(told.at(-1)).toBe('full');
});

test('errors of one system call are one trouble, whichever file it was for', () => {
  const told: string[] = [];
  const hear = seldom(
    ({ message }) => message,
    (text) => told.push(text),
  );
  for (const each of ['open ENOENT', 'open ENOENT', 'open EIO', 'read EIO']) {
    const [syscall, code] = each.split(' ');
    hear(Object.assign(new Error(`${told.length}: ${code}`), { syscall, code }));
  }
  expect(told).toEqual(['0: ENOENT', '1: EIO', '2: EIO']);
});

test.skipIf(needsMount.missing)('a storage whose disk is full says so once', async () => {
  const { port } = await trackerOf();
  const flags = ['--store-paths', mountSmallDisk('8m'), '--trackers', `127.0.0.1:${port}`];
  const storage = new Running(['storage', '--port', '0', ...flags]);
  const address = await storage.ready();
  // Past the tracker, which sends no file to a disk that it knows to be full.
  const put = async (): Promise<number> => {
    const client = await RawClient.open(Number(address.slice(address.lastIndexOf(':') + 1)));
    const request = { storePathIndex: 0, size: 1e6, extension: '' };
    return (await client.bring(uploadFile, request, Buffer.alloc(1e6))).status;
  };
  expect(await put()).toBe(Status.ok);
  await until(async () => (await put()) !== Status.ok);
  for (let count = 0; count < 5; count++) expect(await put()).toBe(Status.noSpace);
  storage.process.kill('SIGTERM');
  const { stderr } = await storage.result();
  expect(stderr.match(/the disk is full/g)).toHaveLength(1);
});
