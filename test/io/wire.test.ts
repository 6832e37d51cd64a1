import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import {
  activeTest,
  encodeFrame,
  encodeRequestHead,
  ioHello,
  ioServerList,
  ioServerReport,
  ioWrite,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { IoServers } from '../../packages/storage/dist/tracker/io-servers.js';
import { RawClient, storageOf, trackerOf, until } from '../storage/support.js';
import { Random } from '../support/random.js';
import { ioServer, partsOf } from './harness.js';

describe('an I/O server', () => {
  const NAME = '00000000000000aa';
  const bytes = Buffer.from('bytes');
  const request = {
    owner: NAME,
    handle: NAME,
    run: NAME,
    offset: 0,
    size: bytes.length,
    crc32: crc32(bytes),
    create: true,
    sync: true,
    verify: false,
  };

  it('takes parts under names that lead nowhere else, and goes on', async () => {
    const server = await ioServer();
    const open = () => RawClient.open(server.record.port);
    const hello = await (await open()).ask(ioHello, undefined);
    expect(hello.answer?.id).toBe(server.record.id);
    const { run } = hello.answer!;
    for (const handle of ['../../../../../x', '0000000000000/..', 'ABCDEF0000000000', '']) {
      const client = await open();
      client.send(encodeRequestHead(ioWrite, { ...request, run, handle }));
      expect((await client.exchange(bytes)).status).toBe(22);
    }
    expect(partsOf(server)).toEqual([]);
    expect(readdirSync(join(server.folder, 'parts'))).toEqual([]);
    const client = await open();
    client.send(encodeRequestHead(ioWrite, { ...request, run }));
    expect((await client.exchange(bytes)).status).toBe(0);
    expect(partsOf(server)).toEqual([NAME]);
  });

  it('survives what is not its protocol', async () => {
    const server = await ioServer();
    const random = new Random(7);
    for (let turn = 0; turn < 150; turn += 1) {
      const client = await RawClient.open(server.record.port);
      const command = 228 + random.below(16);
      const body = Buffer.from(Array.from({ length: random.below(200) }, () => random.below(256)));
      client.send(turn % 3 === 0 ? body : encodeFrame(command, body));
      client.socket.end();
      while (await client.reply());
    }
    const client = await RawClient.open(server.record.port);
    expect((await client.ask(activeTest, undefined)).status).toBe(0);
    expect(existsSync(join(server.folder, 'parts'))).toBe(true);
  });
});

describe('a tracker', () => {
  const report = { id: '00000000000000aa', port: 23_100, totalBytes: 100, freeBytes: 50 };

  it('lists the I/O servers that report to it, and knows when one has gone', async () => {
    const tracker = await trackerOf();
    const asking = await tracker.connect();
    const list = async () => (await asking.ask(ioServerList, undefined)).answer;
    expect(await list()).toEqual([]);
    const server = await tracker.connect();
    expect((await server.ask(ioServerReport, report)).status).toBe(0);
    expect(await list()).toEqual([{ ...report, host: '127.0.0.1', isActive: true }]);
    await server.ask(ioServerReport, { ...report, freeBytes: 10 });
    expect(await list()).toMatchObject([{ freeBytes: 10 }]);
    server.socket.destroy();
    await until(async () => (await list())![0]!.isActive === false);
    const again = await tracker.connect();
    await again.ask(ioServerReport, { ...report, port: 9 });
    expect(await list()).toMatchObject([{ port: 9, isActive: true }]);
    expect((await again.ask(ioServerReport, { ...report, port: 0 })).status).toBe(22);
  });

  it('takes one that is silent for away, and forgets one after a day', () => {
    const servers = new IoServers(1000);
    const link = {};
    servers.report(report, '10.0.0.1', link, 0);
    expect(servers.list(1000)).toMatchObject([{ isActive: true }]);
    expect(servers.list(1001)).toMatchObject([{ isActive: false }]);
    servers.leave(link);
    const other = { ...report, id: '00000000000000bb' };
    servers.report(other, '10.0.0.2', {}, 86_400_001);
    expect(servers.list(86_400_001).map(({ id }) => id)).toEqual([other.id]);
  });
});

it('a storage without a metadata tier does not answer to an I/O server’s commands', async () => {
  const storage = await storageOf();
  const client = await storage.connect();
  expect((await client.ask(ioHello, undefined)).status).toBe(22);
});
