import { existsSync, readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { crc32 } from 'node:zlib';
import { decoratedDisk, localDisk } from '@stevedore/disk';
import { startStorage } from '@stevedore/node';
import { type EmbeddedNodeOptions, startEmbeddedNode } from '@stevedore/node/embedded';
import {
  downloadFile,
  encodeRequestHead,
  parseFileId,
  queryFileInfo,
  queryStore,
  uploadFile,
} from '@stevedore/protocol';
import { writeTrunk } from '@stevedore/staging';
import { describe, expect, it, onTestFinished } from 'vitest';
import { pathOf, RawClient, trackerOf, until } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

async function node(options: Partial<EmbeddedNodeOptions> = {}) {
  const started = await startEmbeddedNode({ directory: temporaryFolder(), ...options });
  onTestFinished(() => started.close());
  return started;
}

describe('an embedded node', () => {
  it('takes an upload as soon as it has started', async () => {
    const { trackers, trackerPort } = await node();
    expect(trackers).toEqual([`127.0.0.1:${trackerPort}`]);
    const tracker = await RawClient.open(trackerPort);
    const { status, answer: target } = await tracker.ask(queryStore, undefined);
    expect(status).toBe(0);
    expect(target!.address).toBe('127.0.0.1');
    const storage = await RawClient.open(target!.port);
    const { storePathIndex } = target!;
    const content = Buffer.from('embedded');
    storage.send(encodeRequestHead(uploadFile, { storePathIndex, size: 8, extension: 'txt' }));
    const file = uploadFile.reply.decode((await storage.exchange(content)).body);
    const { answer } = await storage.ask(downloadFile, { ...file, offset: 0, length: 0 });
    expect(answer).toEqual(content);
  });

  it('keeps small files as rows where it is told to', async () => {
    const directory = temporaryFolder();
    const { storagePort } = await node({ directory, tiers: { enabled: true } });
    const client = await RawClient.open(storagePort);
    const file = await client.upload(Buffer.from('a row'));
    expect(existsSync(pathOf(directory, file))).toBe(false);
    const { answer } = await client.ask(downloadFile, { ...file, offset: 0, length: 0 });
    expect(answer).toEqual(Buffer.from('a row'));
  });

  it('says which port is in use and what to do', async () => {
    const { trackerPort, storagePort } = await node();
    await expect(node({ trackerPort })).rejects.toMatchObject({
      code: 'EADDRINUSE',
      message: expect.stringMatching(`port ${trackerPort} is in use.*another with --tracker-port `),
    });
    await expect(node({ storagePort })).rejects.toMatchObject({
      code: 'EADDRINUSE',
      message: expect.stringMatching(`port ${storagePort} is in use.*another with --storage-port `),
    });
  });

  it('says which directory it cannot write to', async () => {
    const file = join(temporaryFolder(), 'file');
    await writeFile(file, '');
    await expect(node({ directory: join(file, 'below') })).rejects.toMatchObject({
      code: 'ENOTDIR',
      message: expect.stringContaining(join(file, 'below')),
    });
    await expect(node({ directory: file })).rejects.toMatchObject({ code: 'ENOTDIR' });
  });
});

describe('a file that is handed over', () => {
  const bytes = Buffer.alloc(3 * 2 ** 20, 'handed over ');
  const never = new AbortController().signal;

  async function* inPieces() {
    for (let at = 0; at < bytes.length; at += 2 ** 20) {
      yield [bytes.subarray(at, at + 1000), bytes.subarray(at + 1000, at + 2 ** 20)];
    }
  }

  const file = (pieces = inPieces, signal = never) => ({
    ...{ size: bytes.length, extension: 'merged' },
    write: (path: string) => writeTrunk(path, { pieces }, signal),
  });

  /** Files of the storage, those that are being written included. */
  const filesIn = (directory: string): string[] =>
    readdirSync(join(directory, 'data'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.startsWith('.stevedore'))
      .filter((entry) => !entry.parentPath.includes('/sync'))
      .map(({ name }) => name);

  it.each([{}, { enabled: true }])('is one file for every client, with tiers %j', async (tiers) => {
    const directory = temporaryFolder();
    const { take, storagePort } = await node({ directory, tiers });
    const client = await RawClient.open(storagePort);
    const { group, name } = parseFileId(await take(file()))!;
    const { answer } = await client.ask(downloadFile, { group, name, offset: 0, length: 0 });
    expect(answer!.equals(bytes)).toBe(true);
    const info = await client.ask(queryFileInfo, { group, name });
    expect(info.answer).toMatchObject({ size: bytes.length, crc32: crc32(bytes) });
    expect(filesIn(directory)).toHaveLength(1);
  });

  it.each([
    [
      'that cannot be read',
      async function* () {
        yield [bytes.subarray(0, 1000)];
        throw new Error('a damaged file');
      },
      'a damaged file',
    ],
    [
      'that is shorter than it was said',
      async function* () {
        yield [bytes.subarray(0, 1000)];
      },
      'has 1000',
    ],
  ])('is refused and leaves nothing: one %s', async (_name, pieces, message) => {
    const directory = temporaryFolder();
    const { take } = await node({ directory });
    await expect(take(file(pieces))).rejects.toThrow(message);
    expect(filesIn(directory)).toEqual([]);
    await take(file());
    expect(filesIn(directory)).toHaveLength(1);
  });

  it('is given up in the middle, and leaves nothing', async () => {
    const directory = temporaryFolder();
    const { take } = await node({ directory });
    const stop = new AbortController();
    const pieces = async function* () {
      yield [bytes.subarray(0, 1000)];
      stop.abort();
      yield [bytes.subarray(1000)];
    };
    await expect(take(file(pieces, stop.signal))).rejects.toThrow('aborted');
    expect(filesIn(directory)).toEqual([]);
  });

  it('is refused where its name could not be one', async () => {
    const { take } = await node();
    await expect(take({ ...file(), extension: '../x' })).rejects.toThrow('extension');
  });

  it('ends with the thread that takes it', async () => {
    const workers: Worker[] = [];
    process.once('worker', (worker) => workers.push(worker));
    const { take } = await node();
    const pieces = async function* () {
      yield [bytes.subarray(0, 1000)];
      await workers[0]!.terminate();
      yield [bytes.subarray(1000)];
    };
    const expected = { code: 'embedded_node_stopped' };
    await expect(take(file(pieces))).rejects.toMatchObject(expected);
    await expect(take(file())).rejects.toMatchObject(expected);
  });
});

describe('the end of an embedded node', () => {
  it('is reported when nobody asked for it', async () => {
    const workers: Worker[] = [];
    process.once('worker', (worker) => workers.push(worker));
    const errors: (Error & { code?: string })[] = [];
    const { close } = await node({ onError: (error) => errors.push(error) });
    await workers[0]!.terminate();
    await until(() => errors.length > 0);
    expect(errors.map((error) => error.code)).toEqual(['embedded_node_stopped']);
    await close();
  });

  it('is not reported when it was closed', async () => {
    const errors: Error[] = [];
    const { close } = await node({ onError: (error) => errors.push(error) });
    await close();
    expect(errors).toEqual([]);
  });
});

describe('a storage that joins a tracker', () => {
  it('joins again when the tracker comes back', async () => {
    const errors: Error[] = [];
    const first = await trackerOf();
    const storage = await startStorage({
      storePaths: [temporaryFolder()],
      port: 0,
      trackers: [`127.0.0.1:${first.port}`],
      reconnectDelayMs: 5,
      onError: (error) => errors.push(error),
    });
    onTestFinished(() => storage.close());
    await storage.active();
    await first.close();
    await until(() => errors.length > 0);
    const second = await trackerOf({ port: first.port });
    const client = await second.connect();
    await until(async () => (await client.ask(queryStore, undefined)).status === 0);
    expect(errors.every((error) => error.message.includes(String(first.port)))).toBe(true);
  });

  it('pauses after each session, even one that fails by its own disk', async () => {
    const tracker = await trackerOf();
    const errors: Error[] = [];
    let looks = 0;
    const space = async () => {
      looks += 1;
      throw new Error('the disk is away');
    };
    const storage = await startStorage({
      storePaths: [temporaryFolder()],
      port: 0,
      trackers: [`127.0.0.1:${tracker.port}`],
      reconnectDelayMs: 3_600_000,
      disk: decoratedDisk(localDisk, { space }),
      onError: (error) => errors.push(error),
    });
    onTestFinished(() => storage.close());
    await until(() => errors.length > 0);
    expect(errors[0]!.message).toContain('the disk is away');
    const client = await tracker.connect();
    for (let turn = 0; turn < 50; turn += 1) await client.ask(queryStore, undefined);
    expect(looks).toBe(1);
  });

  it('starts without its tracker and becomes active once it is there', async () => {
    const reserved = await trackerOf();
    await reserved.close();
    const storage = await startStorage({
      storePaths: [temporaryFolder()],
      port: 0,
      trackers: [`127.0.0.1:${reserved.port}`],
      reconnectDelayMs: 5,
    });
    onTestFinished(() => storage.close());
    await trackerOf({ port: reserved.port });
    await storage.active();
  });
});
