import fs, { readFileSync } from 'node:fs';
import { storeDisk } from '@stevedore/disk';
import type { StorageOptions } from '@stevedore/node';
import {
  deleteFile,
  downloadFile,
  encodeRequestHead,
  queryFileInfo,
  uploadFile,
} from '@stevedore/protocol';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Pace } from '../../../packages/disk/dist/pace.js';
import { filesIn, pathOf, type RawClient, storageOf } from '../../support/storage/support.js';
import { type DiskCall, watchedDisk } from '../../support/watched-disk.js';

/** A disk that writes down what it is asked and fails when told. */
function noting() {
  const noted = {
    log: [] as string[],
    /** Operation to fail, once, and with which code. */
    fails: undefined as { readonly operation: string; readonly code: string } | undefined,
    onCall: (_operation: string): void => {},
  };
  const disk = watchedDisk(async ({ operation: call, path }, run) => {
    const operation = NAMES[call];
    if (!operation) return run();
    // Only what concerns files of clients, and names without what is random in them.
    const short = path.replace(/^.*\/data/, 'data').replace(/[^/]{34,}$/, 'FILE');
    if (!path.includes('.stevedore-')) {
      noted.log.push(`${operation} ${short.replace(/\.tmp\/.*/, 'TEMPORARY')}`);
    }
    noted.onCall(call);
    if (noted.fails?.operation === operation) {
      const { code } = noted.fails;
      noted.fails = undefined;
      throw Object.assign(new Error(`${operation} fails with ${code}`), { code });
    }
    return run();
  });
  return { disk, noted };
}

const NAMES: Partial<Record<DiskCall['operation'], string>> = {
  create: 'create',
  openToRead: 'open',
  openToUpdate: 'open',
  makeLink: 'link',
  rename: 'rename',
  unlink: 'unlink',
  makeDirectory: 'make',
  syncDirectory: 'sync',
  readAt: 'read',
  writeAt: 'write',
  truncate: 'truncate',
  sync: 'sync',
};

async function watched(options: Partial<StorageOptions> = {}) {
  const { disk, noted } = noting();
  const storage = await storageOf({ disk, ...options });
  const client = await storage.connect();
  noted.log.length = 0;
  return { noted, storage, client };
}

function sendUpload(client: RawClient): void {
  client.send(encodeRequestHead(uploadFile, { storePathIndex: 0, size: 5, extension: 'txt' }));
  client.send(Buffer.from('bytes'));
}

describe('a storage and its disk', () => {
  it('answers an upload after content, name and directories are durable', async () => {
    const { noted: disk, client } = await watched();
    await client.upload(Buffer.from('first'));
    expect(disk.log).toEqual([
      'make data/00/00',
      'sync data/00',
      'sync data',
      'create data/TEMPORARY',
      'write data/TEMPORARY',
      'sync data/TEMPORARY',
      'rename data/00/00/FILE',
      'sync data/00/00',
      'write data/sync/binlog.000',
      'sync data/sync/binlog.000',
    ]);
    disk.log.length = 0;
    await client.upload(Buffer.from('second'));
    expect(disk.log).toEqual([
      'create data/TEMPORARY',
      'write data/TEMPORARY',
      'sync data/TEMPORARY',
      'rename data/00/00/FILE',
      'sync data/00/00',
      'write data/sync/binlog.000',
      'sync data/sync/binlog.000',
    ]);
  });

  it('answers an upload with durability os once the system has file and record', async () => {
    const storage = await storageOf({ durability: 'os' });
    const client = await storage.connect();
    const file = await client.upload(Buffer.from('content'));
    expect(readFileSync(pathOf(storage.folder, file), 'latin1')).toBe('content');
    const log = readFileSync(`${storage.folder}/data/sync/binlog.000`, 'latin1');
    expect(log).toMatch(new RegExp(`^\\d+ C ${file.name}\n$`));
    await storage.close();
    const again = await storageOf({ folder: storage.folder });
    expect(await (await again.connect()).read(file)).toEqual(Buffer.from('content'));
  });

  it.each([
    ['at once while its disk is quick', true, 'created'],
    ['by threads while its disk is slow', false, undefined],
  ])('stores a small file with durability os %s', async (_, isShort, created) => {
    const disk = storeDisk([], false);
    const createNow = vi.spyOn(disk, 'createNow');
    const opens = vi.spyOn(fs, 'openSync');
    vi.spyOn(Pace.prototype, 'isShort').mockReturnValue(isShort);
    onTestFinished(() => void vi.restoreAllMocks());
    const storage = await storageOf({ durability: 'os', disk });
    const client = await storage.connect();
    const first = await client.upload(Buffer.from('makes the directory'));
    const file = await client.upload(Buffer.from('content'));
    const path = pathOf(storage.folder, file);
    expect(opens.mock.calls.some(([opened]) => opened === path)).toBe(isShort);
    expect(createNow.mock.results.map(({ value }) => value)).toEqual([created, created]);
    expect(readFileSync(pathOf(storage.folder, first), 'latin1')).toBe('makes the directory');
    expect(readFileSync(path, 'latin1')).toBe('content');
    expect(readFileSync(pathOf(storage.folder, await client.upload(Buffer.alloc(0)))).length).toBe(
      0,
    );
  });

  it.each(['writevSync', 'fstatSync'] as const)(
    'leaves nothing of a small file with durability os if %s fails, and goes on',
    async (call) => {
      const storage = await storageOf({ durability: 'os' });
      const client = await storage.connect();
      await client.upload(Buffer.from('first'));
      vi.spyOn(Pace.prototype, 'isShort').mockReturnValue(true);
      onTestFinished(() => void vi.restoreAllMocks());
      vi.spyOn(fs, call).mockImplementationOnce(() => {
        throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
      });
      const before = await filesIn(storage.folder);
      sendUpload(client);
      expect((await client.reply())!.status).toBe(28);
      expect(await filesIn(storage.folder)).toEqual(before);
      await client.upload(Buffer.from('second'));
      expect((await filesIn(storage.folder)).length).toBe(before.length + 1);
    },
  );

  it('answers a deletion after the directory is durable', async () => {
    const { noted: disk, client } = await watched();
    const file = await client.upload(Buffer.from('content'));
    disk.log.length = 0;
    await client.ask(deleteFile, file);
    expect(disk.log).toEqual([
      'write data/sync/binlog.000',
      'sync data/sync/binlog.000',
      'unlink data/00/00/FILE',
      'sync data/00/00',
    ]);
  });

  it('reads a small file with one read', async () => {
    const { noted: disk, client } = await watched();
    const file = await client.upload(Buffer.from('content'));
    disk.log.length = 0;
    for (let index = 0; index < 3; index++) {
      await client.ask(downloadFile, { ...file, offset: 1, length: 2 });
    }
    const read = 'read data/00/00/FILE';
    expect(disk.log).toEqual(['open data/00/00/FILE', read, read, read]);
  });

  it.each([
    ['create', 'EACCES', 5],
    ['write', 'EIO', 5],
    ['write', 'ENOSPC', 28],
    ['sync', 'EIO', 5],
    ['make', 'EDQUOT', 28],
    ['rename', 'EIO', 5],
  ])(
    'answers a %s that fails with %s, leaves nothing and goes on',
    async (operation, code, status) => {
      const { noted: disk, storage, client } = await watched();
      disk.fails = { operation, code };
      sendUpload(client);
      expect((await client.reply())!.status).toBe(status);
      expect(await filesIn(storage.folder)).toEqual([]);
      expect(storage.errors.map((error) => error.message)).toEqual([
        `${operation} fails with ${code}`,
      ]);
      expect((await client.upload(Buffer.from('next'))).group).toBe('group1');
    },
  );

  it('takes back a file whose directory could not be synced', async () => {
    const { noted: disk, storage, client } = await watched();
    await client.upload(Buffer.from('makes the directories'));
    disk.onCall = (operation) => {
      if (operation === 'rename') disk.fails = { operation: 'sync', code: 'EIO' };
    };
    sendUpload(client);
    expect((await client.reply())!.status).toBe(5);
    expect((await filesIn(storage.folder)).length).toBe(1);
  });

  it.each([{}, { cacheBytes: 0 }])(
    'answers a file that cannot be read, and goes on, with %j',
    async (options) => {
      const { noted: disk, storage, client } = await watched(options);
      const file = await client.upload(Buffer.from('content'));
      disk.fails = { operation: 'read', code: 'EIO' };
      expect(await client.read(file)).toBe(5);
      // Nothing was announced, so the next request is read as one.
      expect(await client.read(file)).toEqual(Buffer.from('content'));
      expect(storage.errors.map((error) => error.message)).toEqual(['read fails with EIO']);
    },
  );

  it('closes when a download fails in its middle', async () => {
    const { noted: disk, storage, client } = await watched({ cacheBytes: 0 });
    const file = await client.upload(Buffer.alloc(8_000_000));
    let reads = 0;
    disk.onCall = (operation) => {
      if (operation !== 'readAt') return;
      reads += 1;
      if (reads === 20) disk.fails = { operation: 'read', code: 'EIO' };
    };
    await expect(client.ask(downloadFile, { ...file, offset: 0, length: 0 })).rejects.toThrow(
      'closed without a reply',
    );
    const other = await storage.connect();
    expect((await other.ask(queryFileInfo, file)).status).toBe(0);
  });
});
