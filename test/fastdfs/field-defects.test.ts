import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { fin, reset, stall } from '@stevedore/bench/cluster';
import type { FastdfsClient } from '@stevedore/fastdfs';
import { downloadFile, uploadFile } from '@stevedore/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clientOf, failure, goodServer, until } from '../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../support/good-server.js';
import { temporaryFolder } from '../support/temporary.js';
import { clusterSetup } from '../support/test-cluster.js';
import { fileIdVectors, frameVector } from '../support/vectors.js';

/** Defects found in other FastDFS clients, each of which may not be one of ours. */

const escaped: unknown[] = [];
const onEscaped = (error: unknown): void => void escaped.push(error);
beforeAll(() => {
  process.on('unhandledRejection', onEscaped);
  process.on('uncaughtException', onEscaped);
});
afterAll(() => {
  process.off('unhandledRejection', onEscaped);
  process.off('uncaughtException', onEscaped);
});

const CALLS: Readonly<Record<string, (client: FastdfsClient, id: string) => Promise<unknown>>> = {
  upload: (client) => client.upload(HELLO),
  downloadBytes: (client, id) => client.downloadBytes(id),
  download: async (client, id) => buffer((await client.download(id)).stream),
};

describe('D1 and D2: no promise stays open and no error goes astray when the storage', () => {
  it.each([
    ['stalls', stall, 'timeout'],
    ['resets', reset, 'connection_lost'],
    ['closes', fin, 'connection_lost'],
  ] as const)('%s', async (_, how, code) => {
    const { client, cluster } = await clusterSetup({ idleTimeoutMs: 200 });
    const id = await client.upload(HELLO);
    for (const command of [uploadFile.code, downloadFile.code]) {
      cluster.storages[0]!.misbehave(command, how);
    }
    for (const call of Object.values(CALLS)) {
      expect((await failure(call(client, id))).code).toBe(code);
    }
    await client.close();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(escaped).toEqual([]);
  });
});

describe('D3 and D4: both widths of addresses are understood', () => {
  it.each(['narrow', 'wide'] as const)('%s', async (addressWidth) => {
    const { client } = await clusterSetup({}, { addressWidth, storages: 2 });
    const id = await client.upload(HELLO, { group: 'group1' });
    expect(await client.downloadBytes(id)).toEqual(HELLO);
    expect((await client.info(id)).sourceAddress).toBe('127.0.0.1');
    expect((await client.locateAll(id)).length).toBe(2);
    expect((await client.listStorages('group1')).length).toBe(2);
    await client.delete(id);
  });
});

it('D5: a CRC-32 with its top bit set is a number above 2^31', async () => {
  const server = await goodServer();
  const client = clientOf(server.address);
  const high = fileIdVectors().filter(
    ({ server_query_file_info: { crc32_unsigned } }) => crc32_unsigned > 0x7fff_ffff,
  );
  expect(high.length).toBeGreaterThan(0);
  for (const { file_id, query_response_hex, server_query_file_info } of high) {
    server.answers.set(22, ({ socket }) => socket.write(Buffer.from(query_response_hex, 'hex')));
    expect((await client.info(file_id)).crc32).toBe(server_query_file_info.crc32_unsigned);
  }
});

it('D6: a download into a file is on the disk, whole, when the call is done', async () => {
  const { client } = await clusterSetup();
  const whole = Buffer.alloc(3_000_001, 'flushed ');
  const id = await client.upload(whole);
  const path = join(temporaryFolder(), 'file');
  await client.downloadFile(id, path);
  expect(readFileSync(path).equals(whole)).toBe(true);
});

it('D7: sizes and offsets are exact above 4 GiB', async () => {
  const server = await goodServer();
  const client = clientOf(server.address);
  const big = fileIdVectors().find(({ decoded }) => decoded.size_in_name > 2 ** 32)!;
  server.answers.set(22, ({ socket }) => socket.write(Buffer.from(big.query_response_hex, 'hex')));
  expect((await client.info(big.file_id)).size).toBe(2 ** 32 + 5);
  expect(client.describe(big.file_id).size).toBe(2 ** 32 + 5);
  await client.downloadBytes(big.file_id, { offset: 2 ** 32 + 3 }).catch(() => {});
  const { body } = server.requests.find(({ command }) => command === 14)!;
  expect(body.readBigInt64BE(0)).toBe(2n ** 32n + 3n);
});

describe('D8: frames have every field, and replies may come with their header', () => {
  it('upload and download are those of the C client', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    await client.upload(HELLO, { extension: 'txt' });
    // The whole reply comes in one piece here.
    expect(await client.downloadBytes(HELLO_ID)).toEqual(HELLO);
    for (const [command, op] of [
      [11, 'storage.upload.buff.13.txt'],
      [14, 'storage.download.whole'],
    ] as const) {
      const { frame } = server.requests.find((request) => request.command === command)!;
      expect(frame.toString('hex')).toBe(frameVector('storage', op).request_hex);
    }
  });
});

it("D9: a reply that comes too late is never another call's", async () => {
  const { client, cluster } = await clusterSetup({
    idleTimeoutMs: 150,
    maxConnectionsPerAddress: 1,
  });
  const [first, second] = [await client.upload(Buffer.from('1')), await client.upload(HELLO)];
  const late: (() => void)[] = [];
  cluster.storages[0]!.misbehave(downloadFile.code, ({ socket }, good) =>
    late.push(() => socket.write(good)),
  );
  expect((await failure(client.downloadBytes(first))).code).toBe('timeout');
  cluster.storages[0]!.misbehave(downloadFile.code, ({ socket }, good) => {
    for (const send of late) send();
    socket.write(good);
  });
  expect(await client.downloadBytes(second)).toEqual(HELLO);
});

it('D10: a thousand calls in a row need one connection to each server', async () => {
  const { client, cluster } = await clusterSetup();
  const id = await client.upload(HELLO);
  for (let index = 0; index < 1_000; index++) await client.downloadBytes(id);
  expect([cluster.tracker.accepted, cluster.storages[0]!.accepted]).toEqual([1, 1]);
});

describe('D11: the first call after a server dropped idle connections succeeds', () => {
  it.each(Object.entries(CALLS))('%s', async (_, call) => {
    const server = await goodServer();
    const client = clientOf(server.address);
    await call(client, HELLO_ID);
    // Unseen by the client until it writes: the server resets at the next request.
    const dropped = new Set(server.server.sockets);
    for (const command of [101, 102, 11, 14]) {
      server.answers.set(command, ({ socket }, good) => {
        if (dropped.has(socket)) socket.resetAndDestroy();
        else socket.write(good);
      });
    }
    await call(client, HELLO_ID);
  });

  it('and so it does when the server closed them in good order', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    await client.upload(HELLO);
    for (const socket of server.server.sockets) socket.end();
    await until(() => client.stats().open === 0);
    expect(await client.upload(HELLO)).toBe(HELLO_ID);
  });
});
