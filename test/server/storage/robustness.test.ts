import { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { decoratedDisk, localDisk } from '@stevedore/disk';
import {
  deleteFile,
  downloadFile,
  encodeHeader,
  encodeRequest,
  encodeRequestHead,
  type FileName,
  HEADER_BYTES,
  queryFileInfo,
  uploadFile,
} from '@stevedore/protocol';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { fakeClock } from '../../support/fake-clock.js';
import {
  filesIn,
  RawClient,
  storageOf,
  trackerOf,
  turns,
  until,
} from '../../support/storage/support.js';

const ACTIVE_TEST = '00000000000000006f00';

function uploadHead(size: number, bodyBytes: number): Buffer {
  const head = uploadFile.request.encode({ storePathIndex: 0, size, extension: 'txt' });
  const header = encodeHeader({ bodyBytes, command: uploadFile.code, status: 0 });
  return Buffer.concat([header, head]);
}

/** Has a file from its first bytes on; a small one is stored when it is whole. */
const LARGE_BYTES = 4 * 2 ** 20;

describe('a daemon', () => {
  const daemons = [
    { role: 'storage', start: (options: object) => storageOf(options) },
    { role: 'tracker', start: (options: object) => trackerOf(options) },
  ];

  it.each(daemons)('that is a $role closes without a word on a negative length', async (each) => {
    const client = await (await each.start({})).connect();
    client.send('80000000000000006f00');
    await client.ended();
  });

  it.each(daemons)('that is a $role refuses a body no command has, and closes', async (each) => {
    const client = await (await each.start({})).connect();
    const bodyBytes = 65_537;
    expect(
      (await client.exchange(encodeHeader({ bodyBytes, command: 111, status: 0 }))).status,
    ).toBe(22);
    await client.ended();
  });

  it.each(daemons)('that is a $role closes on half a request and an end', async (each) => {
    const client = await (await each.start({})).connect();
    client.send('000000000000');
    client.socket.end();
    await client.ended();
  });

  it.each(daemons)('that is a $role closes a connection that stays silent', async (each) => {
    const daemon = await each.start({ requestTimeoutMs: 30 });
    const silent = await daemon.connect();
    const half = await daemon.connect();
    half.send('00000000000000');
    const halfBody = await daemon.connect();
    halfBody.send('000000000000000a6600abcd');
    await Promise.all([silent.ended(), half.ended(), halfBody.ended()]);
  });

  it.each(daemons)('that is a $role keeps a connection idle between requests', async (each) => {
    fakeClock();
    const daemon = await each.start({ requestTimeoutMs: 5_000 });
    const kept = await daemon.connect();
    expect(await kept.isOpen()).toBe(true);
    const silent = await daemon.connect();
    await turns();
    await vi.advanceTimersByTimeAsync(5_001);
    await silent.ended();
    expect(await kept.isOpen()).toBe(true);
  });

  it.each(daemons)('that is a $role answers a client that has ended its side', async (each) => {
    const client = await (await each.start({})).connect();
    client.send(ACTIVE_TEST);
    client.socket.end();
    expect((await client.reply())!.status).toBe(0);
    await client.ended();
  });

  it.each(daemons)('that is a $role reads requests that come byte by byte', async (each) => {
    const client = await (await each.start({})).connect();
    for (const byte of Buffer.from(ACTIVE_TEST + ACTIVE_TEST, 'hex')) {
      client.send(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await client.reply())!.status).toBe(0);
    expect((await client.reply())!.status).toBe(0);
  });

  it.each(daemons)('that is a $role goes on beside a thousand idle connections', async (each) => {
    const daemon = await each.start({});
    const idle = await Promise.all(Array.from({ length: 1000 }, () => daemon.connect()));
    const client = await daemon.connect();
    expect(await client.isOpen()).toBe(true);
    expect(await idle[999]!.isOpen()).toBe(true);
  });

  it.each(daemons)(
    'that is a $role closes the longest idle connection for one beyond its limit',
    async (each) => {
      const daemon = await each.start({ maxConnections: 2 });
      const first = await daemon.connect();
      const second = await daemon.connect();
      expect(await second.isOpen()).toBe(true);
      expect(await first.isOpen()).toBe(true);
      const third = await daemon.connect();
      await second.ended();
      expect(await third.isOpen()).toBe(true);
      expect(await first.isOpen()).toBe(true);
    },
  );

  it.each(daemons)('that is a $role ends no request for a connection that comes', async (each) => {
    const daemon = await each.start({ maxConnections: 1 });
    const client = await daemon.connect();
    const request = encodeRequest(queryFileInfo, { group: 'group1', name: 'M00/00/00/none' });
    client.send(request.subarray(0, 15));
    // The daemon, in this process, reads what has been sent in the next turn.
    await until(() => client.socket.bytesWritten > 0);
    await turns();
    const other = await daemon.connect();
    await other.ended();
    client.send(request.subarray(15));
    expect(await client.reply()).toBeDefined();
  });
});

describe('a storage', () => {
  it('refuses an upload whose size is not that of its body', async () => {
    const storage = await storageOf();
    for (const [size, bodyBytes] of [
      [10, 15 + 9],
      [10, 15 + 11],
      [0, 16],
      [2 ** 40, 15],
    ] as const) {
      const client = await storage.connect();
      client.send(uploadHead(size, bodyBytes));
      client.send(Buffer.alloc(bodyBytes - 15));
      expect((await client.reply())!.status).toBe(22);
      await client.ended();
    }
    expect(await filesIn(storage.folder)).toEqual([]);
  });

  it('never takes the content of a refused upload for requests', async () => {
    const storage = await storageOf();
    const setup = await storage.connect();
    const victim = await setup.upload(Buffer.from('still here'));
    const poison = encodeRequest(deleteFile, victim);
    const content = Buffer.concat(Array.from({ length: 20_000 }, () => poison));
    for (const storePathIndex of [0, 9]) {
      // Path 9 is refused with 22, size beyond the disk with 28.
      const size = storePathIndex === 9 ? content.length : 2 ** 50;
      const client = await storage.connect();
      client.send(encodeRequestHead(uploadFile, { storePathIndex, size, extension: 'bin' }));
      client.send(content);
      expect((await client.reply())!.status).toBe(storePathIndex === 9 ? 22 : 28);
      await client.ended();
    }
    const info = await setup.ask(queryFileInfo, victim);
    expect(info.status).toBe(0);
  });

  it('drains a small refused upload and goes on with the next request', async () => {
    const disk = decoratedDisk(localDisk, {
      space: async () => ({ totalBytes: 2 ** 40, freeBytes: 99 }),
    });
    const storage = await storageOf({ disk });
    const client = await storage.connect();
    client.send(encodeRequestHead(uploadFile, { storePathIndex: 0, size: 100, extension: '' }));
    client.send(Buffer.alloc(100, ACTIVE_TEST, 'hex'));
    expect((await client.reply())!.status).toBe(28);
    expect(await client.isOpen()).toBe(true);
  });

  it.each([
    ['a parent directory', 'M00/00/00/../../../etc/passwd', 22],
    ['a parent directory as its base', 'M00/00/00/..', 2],
    ['lower-case directories', 'M00/0a/00/fwARA2sAqNyAGl3yAAAADcRYHyQ999.txt', 22],
    ['a lower-case path', 'M0a/00/00/fwARA2sAqNyAGl3yAAAADcRYHyQ999.txt', 22],
    ['a path that is not there', 'M01/00/00/fwARA2sAqNyAGl3yAAAADcRYHyQ999.txt', 22],
    ['too many parts', 'M00/00/00/00/fwARA2sAqNyAGl3yAAAADcRYHyQ999.txt', 22],
    ['too many characters', `M00/00/00/${'a'.repeat(118)}`, 22],
    ['as many characters as there may be', `M00/00/00/${'a'.repeat(117)}`, 2],
    ['a NUL', 'M00/00/00/fwARA2sAqNyAGl3yAAAADcRYHyQ9\u000099.txt', 2],
    ['a short base', 'M00/00/00/short', 2],
    ['nothing', '', 22],
    ['a file of the storage itself', 'M00/.stevedore-storage.json', 22],
    ['an absolute path', '/etc/passwd', 22],
  ])('answers a name with %s', async (_, name, status) => {
    const storage = await storageOf();
    const requests = (file: FileName) => [
      encodeRequest(downloadFile, { ...file, offset: 0, length: 0 }),
      encodeRequest(queryFileInfo, file),
      encodeRequest(deleteFile, file),
    ];
    for (const request of requests({ group: 'group1', name })) {
      const client = await storage.connect();
      expect((await client.exchange(request)).status).toBe(status);
      if (status === 22) await client.ended();
    }
    expect(storage.errors).toEqual([]);
  });

  it('leaves nothing of an upload whose client goes away', async () => {
    const storage = await storageOf();
    for (const goes of ['end', 'destroy', 'resetAndDestroy'] as const) {
      const client = await storage.connect();
      client.send(
        encodeRequestHead(uploadFile, { storePathIndex: 0, size: 1_000_000, extension: '' }),
      );
      client.send(Buffer.alloc(400_000));
      await until(async () => (await filesIn(storage.folder)).length === 1);
      client.socket[goes]();
      await until(async () => (await filesIn(storage.folder)).length === 0);
    }
    expect(storage.errors).toEqual([]);
  });

  it('gives up an upload that stops coming', async () => {
    const storage = await storageOf({ requestTimeoutMs: 40 });
    const client = await storage.connect();
    client.send(encodeRequestHead(uploadFile, { storePathIndex: 0, size: 1000, extension: '' }));
    client.send(Buffer.alloc(999));
    await client.ended();
    await until(async () => (await filesIn(storage.folder)).length === 0);
  });

  it('gives up a download that nobody reads', async () => {
    // Long enough for the upload, whatever else the machine does.
    const storage = await storageOf({ requestTimeoutMs: 2000 });
    const setup = await storage.connect();
    const file = await setup.upload(Buffer.alloc(30_000_000));
    const client = await storage.connect();
    client.socket.pause();
    client.send(encodeRequest(downloadFile, { ...file, offset: 0, length: 0 }));
    await until(() => storage.statistics().connections.current === 1);
    client.socket.resume();
    await client.ended();
    expect(await setup.isOpen()).toBe(true);
  });

  it('gives a slow reader the time of a request for each piece of a file that is in memory', async () => {
    const storage = await storageOf({ cacheBytes: 2 ** 23 });
    const client = await storage.connect();
    const bytes = Buffer.alloc(1_000_000, 'slow');
    const file = await client.upload(bytes);
    const read = () => client.ask(downloadFile, { ...file, offset: 0, length: 0 });
    await until(async () => {
      await read();
      return storage.cacheStats()!.hits > 0;
    });
    const written: number[] = [];
    const write = vi.spyOn(Socket.prototype, 'write');
    onTestFinished(() => write.mockRestore());
    write.mockImplementation(function (this: Socket, ...args) {
      if (this.localPort === storage.port) written.push((args[0] as Buffer).length);
      return Writable.prototype.write.apply(this, args as never);
    });
    expect((await read()).answer!.equals(bytes)).toBe(true);
    expect(Math.max(...written)).toBeLessThanOrEqual(256 * 1024);
    expect(written.reduce((sum, each) => sum + each, 0)).toBe(bytes.length + HEADER_BYTES);
  });

  it('gives others their turn while it answers requests that one client sent ahead', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await client.upload(Buffer.from('small'));
    const request = encodeRequest(downloadFile, { ...file, offset: 0, length: 0 });
    const answered = () => storage.statistics().operations.download.total;
    const count = 700;
    client.send(Buffer.concat(Array.from({ length: count }, () => request)));
    let most = 0;
    for (let before = 0; before < count; ) {
      await nextTurn();
      most = Math.max(most, answered() - before);
      before = answered();
    }
    expect(most).toBeLessThan(200);
    for (let each = 0; each < count; each += 1) {
      expect((await client.reply())!.body.toString()).toBe('small');
    }
  });

  it('answers pipelined requests, uploads among them, in their order', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const upload = (text: string) =>
      Buffer.concat([
        encodeRequestHead(uploadFile, { storePathIndex: 0, size: text.length, extension: 'txt' }),
        Buffer.from(text),
      ]);
    client.send(Buffer.concat([upload('one'), Buffer.from(ACTIVE_TEST, 'hex'), upload('three')]));
    const first = uploadFile.reply.decode((await client.reply())!.body);
    expect((await client.reply())!.body.length).toBe(0);
    const third = uploadFile.reply.decode((await client.reply())!.body);
    const read = async (file: FileName) =>
      (await client.ask(downloadFile, { ...file, offset: 0, length: 0 })).answer!.toString();
    expect([await read(first), await read(third)]).toEqual(['one', 'three']);
  });

  it('finishes an upload under way when it closes', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    client.send(
      encodeRequestHead(uploadFile, { storePathIndex: 0, size: LARGE_BYTES, extension: '' }),
    );
    client.send(Buffer.alloc(LARGE_BYTES / 2));
    await until(async () => (await filesIn(storage.folder)).length === 1);
    const closing = storage.close();
    client.send(Buffer.alloc(LARGE_BYTES / 2));
    expect((await client.reply())!.status).toBe(0);
    await client.ended();
    await closing;
    await expect(RawClient.open(storage.port)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('does not wait for ever for an upload when it closes', async () => {
    const storage = await storageOf({ closeTimeoutMs: 20 });
    const client = await storage.connect();
    client.send(
      encodeRequestHead(uploadFile, { storePathIndex: 0, size: LARGE_BYTES, extension: '' }),
    );
    client.send(Buffer.alloc(LARGE_BYTES / 2));
    await until(async () => (await filesIn(storage.folder)).length === 1);
    await storage.close();
    await client.ended();
    expect(await filesIn(storage.folder)).toEqual([]);
  });
});
