import { type Disk, type DiskFile, decoratedFile, localDisk } from '@stevedore/disk';
import {
  deleteFile,
  downloadFile,
  encodeRequestHead,
  queryFileInfo,
  uploadFile,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { filesIn, type RawClient, storageOf } from './support.js';

/** The disk of this machine that writes down what it is asked and fails when told. */
class WatchedDisk implements Disk {
  readonly log: string[] = [];
  /** Operation to fail, once, and with which code. */
  fails: { readonly operation: string; readonly code: string } | undefined;

  async #do<Result>(operation: string, path: string, action: () => Promise<Result>) {
    // Only what concerns files of clients, and names without what is random in them.
    const short = path.replace(/^.*\/data/, 'data').replace(/[^/]{34,}$/, 'FILE');
    if (!path.includes('.stevedore-')) {
      this.log.push(`${operation} ${short.replace(/\.tmp\/.*/, 'TEMPORARY')}`);
    }
    if (this.fails?.operation === operation) {
      const { code } = this.fails;
      this.fails = undefined;
      throw Object.assign(new Error(`${operation} fails with ${code}`), { code });
    }
    return action();
  }

  #file(file: DiskFile, path: string): DiskFile {
    return decoratedFile(file, {
      readAt: (target, position) => this.#do('read', path, () => file.readAt(target, position)),
      writeAt: (chunks, position) => this.#do('write', path, () => file.writeAt(chunks, position)),
      truncate: (size) => this.#do('truncate', path, () => file.truncate(size)),
      sync: () => this.#do('sync', path, () => file.sync()),
    });
  }

  create = (path: string) =>
    this.#do('create', path, async () => this.#file(await localDisk.create(path), path));
  openToRead = (path: string) =>
    this.#do('open', path, async () => this.#file(await localDisk.openToRead(path), path));
  openToUpdate = (path: string) =>
    this.#do('open', path, async () => this.#file(await localDisk.openToUpdate(path), path));
  makeLink = (target: string, path: string) =>
    this.#do('link', path, () => localDisk.makeLink(target, path));
  readLink = (path: string) => localDisk.readLink(path);
  rename = (from: string, to: string) => this.#do('rename', to, () => localDisk.rename(from, to));
  unlink = (path: string) => this.#do('unlink', path, () => localDisk.unlink(path));
  exists = (path: string) => localDisk.exists(path);
  makeDirectory = (path: string) => this.#do('make', path, () => localDisk.makeDirectory(path));
  syncDirectory = (path: string) => this.#do('sync', path, () => localDisk.syncDirectory(path));
  list = (path: string) => localDisk.list(path);
  space = (path: string) => localDisk.space(path);
}

async function watched() {
  const disk = new WatchedDisk();
  const storage = await storageOf({ disk });
  const client = await storage.connect();
  disk.log.length = 0;
  return { disk, storage, client };
}

function sendUpload(client: RawClient): void {
  client.send(encodeRequestHead(uploadFile, { storePathIndex: 0, size: 5, extension: 'txt' }));
  client.send(Buffer.from('bytes'));
}

describe('a storage and its disk', () => {
  it('answers an upload after content, name and directories are durable', async () => {
    const { disk, client } = await watched();
    await client.upload(Buffer.from('first'));
    expect(disk.log).toEqual([
      'create data/TEMPORARY',
      'write data/TEMPORARY',
      'sync data/TEMPORARY',
      'make data/00/00',
      'sync data/00',
      'sync data',
      'rename data/00/00/FILE',
      'write data/sync/binlog.000',
      'sync data/00/00',
      'sync data/sync/binlog.000',
    ]);
    disk.log.length = 0;
    await client.upload(Buffer.from('second'));
    expect(disk.log).toEqual([
      'create data/TEMPORARY',
      'write data/TEMPORARY',
      'sync data/TEMPORARY',
      'rename data/00/00/FILE',
      'write data/sync/binlog.000',
      'sync data/00/00',
      'sync data/sync/binlog.000',
    ]);
  });

  it('answers a deletion after the directory is durable', async () => {
    const { disk, client } = await watched();
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
    const { disk, client } = await watched();
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
      const { disk, storage, client } = await watched();
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
    const { disk, storage, client } = await watched();
    await client.upload(Buffer.from('makes the directories'));
    const rename = disk.rename;
    disk.rename = async (from, to) => {
      await rename(from, to);
      disk.fails = { operation: 'sync', code: 'EIO' };
    };
    sendUpload(client);
    expect((await client.reply())!.status).toBe(5);
    expect((await filesIn(storage.folder)).length).toBe(1);
  });

  it('answers a small file that cannot be read, and goes on', async () => {
    const { disk, storage, client } = await watched();
    const file = await client.upload(Buffer.from('content'));
    disk.fails = { operation: 'read', code: 'EIO' };
    const asked = { ...file, offset: 0, length: 0 };
    expect((await client.ask(downloadFile, asked)).status).toBe(5);
    expect((await client.ask(downloadFile, asked)).answer).toEqual(Buffer.from('content'));
    expect(storage.errors.map((error) => error.message)).toEqual(['read fails with EIO']);
  });

  it('answers a download that cannot be read at all, and goes on', async () => {
    const disk = new WatchedDisk();
    const storage = await storageOf({ disk, cacheBytes: 0 });
    const client = await storage.connect();
    const file = await client.upload(Buffer.from('content'));
    disk.fails = { operation: 'read', code: 'EIO' };
    expect((await client.ask(downloadFile, { ...file, offset: 0, length: 0 })).status).toBe(5);
    // Nothing was announced, so the next request is read as one.
    expect((await client.ask(downloadFile, { ...file, offset: 0, length: 0 })).status).toBe(0);
  });

  it('closes when a download fails in its middle', async () => {
    const disk = new WatchedDisk();
    const storage = await storageOf({ disk, readChunkBytes: 1000, cacheBytes: 0 });
    const client = await storage.connect();
    const file = await client.upload(Buffer.alloc(100_000));
    let reads = 0;
    const openToRead = disk.openToRead;
    disk.openToRead = async (path) => {
      const opened = await openToRead(path);
      const readAt = opened.readAt;
      opened.readAt = (target, position) => {
        if (++reads === 50) disk.fails = { operation: 'read', code: 'EIO' };
        return readAt(target, position);
      };
      return opened;
    };
    await expect(client.ask(downloadFile, { ...file, offset: 0, length: 0 })).rejects.toThrow(
      'closed without a reply',
    );
    const other = await storage.connect();
    expect((await other.ask(queryFileInfo, file)).status).toBe(0);
  });
});
