import fs, {
  constants,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
} from 'node:fs';
import {
  type Disk,
  localDisk,
  privateDisk,
  readSmallFile,
  removeIfThere,
  replaceFile,
  storeDisk,
} from '@stevedore/disk';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Pace } from '../../../packages/disk/dist/pace.js';
import { execFileSync } from '../../support/child-process.js';
import { SimulatedDisk } from '../../support/simulator/disk.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What every disk does, the simulated one as the real one. */

const DISKS: readonly (readonly [string, () => { disk: Disk; root: string }])[] = [
  ['the disk of this machine', () => ({ disk: localDisk, root: temporaryFolder() })],
  ['the simulated disk', () => ({ disk: new SimulatedDisk('/root'), root: '/root' })],
];

async function written(disk: Disk, path: string, text: string): Promise<void> {
  const file = await disk.create(path);
  await file.writeAt([Buffer.from(text)], 0);
  await file.close();
}

const textOf = async (disk: Disk, path: string) => (await readSmallFile(disk, path))?.toString();

const unsynced = storeDisk([], false);

describe.each(DISKS)('%s', (_, make) => {
  test('writes chunks one behind the other and reads them back in parts', async () => {
    const { disk, root } = make();
    const file = await disk.create(`${root}/file`);
    await file.writeAt([Buffer.from('ab'), Buffer.alloc(0), Buffer.from('cde')], 2);
    const target = Buffer.alloc(4, '-');
    expect(await file.readAt(target, 0)).toBe(4);
    expect(target.toString('latin1')).toBe('\0\0ab');
    expect(await file.readAt(target, 5)).toBe(2);
    expect(target.toString('latin1')).toBe('deab');
    expect(await file.readAt(target, 100)).toBe(0);
    expect((await file.stat()).size).toBe(7);
    await file.close();
  });

  test('a closed file can be neither used nor closed again, whoever has its number', async () => {
    const { disk, root } = make();
    const closed = await disk.create(`${root}/closed`);
    await closed.close();
    const open = await disk.create(`${root}/open`);
    await open.writeAt([Buffer.from('whole')], 0);
    await expect(closed.close()).rejects.toThrow();
    await expect(closed.writeAt([Buffer.from('wrong')], 0)).rejects.toThrow();
    await expect(closed.writeDurablyAt?.([Buffer.from('wrong')], 0)).rejects.toThrow();
    await expect(closed.readAt(Buffer.alloc(1), 0)).rejects.toThrow();
    await expect(closed.truncate(0)).rejects.toThrow();
    await expect(closed.sync()).rejects.toThrow();
    await open.close();
    expect(await textOf(disk, `${root}/open`)).toBe('whole');
  });

  test('writes more chunks than one system call takes', async () => {
    const { disk, root } = make();
    const chunks = Array.from({ length: 2500 }, (_, index) => Buffer.from(`${index},`));
    const file = await disk.create(`${root}/file`);
    await file.writeAt(chunks, 0);
    await file.close();
    expect(await textOf(disk, `${root}/file`)).toBe(Buffer.concat(chunks).toString());
  });

  test('writes durably to a file that is written otherwise too, whatever its name', async () => {
    const { disk, root } = make();
    const file = await disk.create(`${root}/file`);
    await file.writeAt([Buffer.from('one ')], 0);
    await disk.rename(`${root}/file`, `${root}/other`);
    await file.writeDurablyAt?.([Buffer.from('tw'), Buffer.from('o ')], 4);
    await file.writeAt([Buffer.from('three')], 8);
    await file.writeDurablyAt?.([Buffer.from('ONE')], 0);
    await file.close();
    expect(await textOf(disk, `${root}/other`)).toBe('ONE two three');
    expect(await disk.exists(`${root}/file`)).toBe(false);
  });

  test('makes a file that is written once, whole and with its time, and none twice', async () => {
    const { disk, root } = make();
    const file = await disk.create(`${root}/file`, true);
    await file.writeAt([Buffer.from('on'), Buffer.from('ce')], 0);
    await file.setModified(1234);
    await file.sync();
    expect(await file.stat()).toMatchObject({ size: 4, mtimeSeconds: 1234 });
    await file.close();
    expect(await textOf(disk, `${root}/file`)).toBe('once');
    await expect(disk.create(`${root}/file`, true)).rejects.toMatchObject({ code: 'EEXIST' });
  });

  test('cuts files, fills them up, and keeps their time', async () => {
    const { disk, root } = make();
    await written(disk, `${root}/file`, 'abcdef');
    const file = await disk.openToUpdate(`${root}/file`);
    await file.truncate(2);
    await file.truncate(4);
    await file.setModified(1_600_000_000);
    await file.sync();
    expect(await file.stat()).toEqual({ size: 4, mtimeSeconds: 1_600_000_000, isFile: true });
    await file.close();
    expect(await textOf(disk, `${root}/file`)).toBe('ab\0\0');
  });

  test('opens to update what there is and what there is not', async () => {
    const { disk, root } = make();
    const file = await disk.openToUpdate(`${root}/new`);
    await file.writeAt([Buffer.from('new')], 0);
    await file.close();
    expect(await textOf(disk, `${root}/new`)).toBe('new');
  });

  test('says with the code of the system what is missing or in the way', async () => {
    const { disk, root } = make();
    await written(disk, `${root}/file`, 'text');
    await expect(disk.create(`${root}/file`)).rejects.toMatchObject({ code: 'EEXIST' });
    await expect(disk.openToRead(`${root}/none`)).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(disk.unlink(`${root}/none`)).rejects.toMatchObject({ code: 'ENOENT' });
    const lost = disk.rename(`${root}/none`, `${root}/some`);
    await expect(lost).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(disk.create(`${root}/no/file`)).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(disk.syncDirectory(`${root}/no`)).rejects.toMatchObject({ code: 'ENOENT' });
    expect(await disk.list(`${root}/no`)).toEqual([]);
    expect(await disk.exists(`${root}/no/file`)).toBe(false);
    expect(await readSmallFile(disk, `${root}/none`)).toBeUndefined();
    expect(await removeIfThere(disk, `${root}/none`)).toBe(false);
  });

  test('makes directories and those above, again and again', async () => {
    const { disk, root } = make();
    await disk.makeDirectory(`${root}/a/b/c`);
    await disk.makeDirectory(`${root}/a/b/c`);
    await written(disk, `${root}/a/b/c/file`, 'text');
    await disk.syncDirectory(`${root}/a/b/c`);
    expect(await disk.list(`${root}/a/b/c`)).toEqual(['file']);
    expect(await disk.exists(`${root}/a/b`)).toBe(true);
  });

  test('renames within and across directories, over what is there', async () => {
    const { disk, root } = make();
    await disk.makeDirectory(`${root}/a`);
    await written(disk, `${root}/one`, 'one');
    await written(disk, `${root}/a/two`, 'two');
    await disk.rename(`${root}/one`, `${root}/three`);
    await disk.rename(`${root}/three`, `${root}/a/two`);
    expect(await textOf(disk, `${root}/a/two`)).toBe('one');
    expect(await disk.exists(`${root}/three`)).toBe(false);
  });

  test('does not follow a link when it opens, and removes the link alone', async () => {
    const { disk, root } = make();
    await written(disk, `${root}/file`, 'text');
    await disk.makeLink('file', `${root}/link`);
    expect(await disk.readLink(`${root}/link`)).toMatchObject({ target: 'file' });
    await expect(disk.openToRead(`${root}/link`)).rejects.toMatchObject({ code: 'ELOOP' });
    await expect(disk.openToUpdate(`${root}/link`)).rejects.toMatchObject({ code: 'ELOOP' });
    await expect(disk.makeLink('file', `${root}/link`)).rejects.toMatchObject({ code: 'EEXIST' });
    await disk.makeLink('nowhere', `${root}/lost`);
    expect(await disk.exists(`${root}/lost`)).toBe(true);
    await disk.unlink(`${root}/link`);
    expect(await textOf(disk, `${root}/file`)).toBe('text');
  });

  test('goes on reading a file whose name is gone', async () => {
    const { disk, root } = make();
    await written(disk, `${root}/file`, 'text');
    const file = await disk.openToRead(`${root}/file`);
    await disk.unlink(`${root}/file`);
    const target = Buffer.alloc(4);
    expect(await file.readAt(target, 0)).toBe(4);
    expect(target.toString()).toBe('text');
    await file.close();
  });

  test('replaces a small file, also where a crash left its temporary one', async () => {
    const { disk, root } = make();
    await written(disk, `${root}/state.new`, 'left behind');
    await replaceFile(disk, root, 'state', 'first');
    await replaceFile(disk, root, 'state', 'second');
    expect(await textOf(disk, `${root}/state`)).toBe('second');
    expect((await readSmallFile(disk, `${root}/state`, 3))?.toString()).toBe('sec');
    expect(await disk.list(root)).toEqual(['state']);
  });
});

test('a disk without syncs takes every kind of write at once', async () => {
  const root = temporaryFolder();
  const file = await unsynced.create(`${root}/file`, true);
  await file.writeAt([Buffer.from('one ')], 0);
  await file.writeDurablyAt?.([Buffer.from('two')], 4);
  await file.sync();
  await file.close();
  await expect(file.sync()).rejects.toThrow();
  await replaceFile(unsynced, root, 'state', 'new');
  expect(readFileSync(`${root}/file`, 'latin1')).toBe('one two');
  expect(readFileSync(`${root}/state`, 'latin1')).toBe('new');
});

test.each([
  ['at once on the disk of a storage, while that is quick', localDisk, 1],
  ['in threads on the private disk: a slow one holds up no request', privateDisk, 0],
] as const)('a small file is created, written and renamed %s', async (_, disk, calls) => {
  const root = temporaryFolder();
  vi.spyOn(Pace.prototype, 'isShort').mockReturnValue(true);
  onTestFinished(() => void vi.restoreAllMocks());
  const names = ['openSync', 'writevSync', 'renameSync'] as const;
  const spies = names.map((name) => vi.spyOn(fs, name));
  const file = await disk.create(`${root}/new`);
  await file.writeAt([Buffer.from('bytes')], 0);
  await file.close();
  await disk.rename(`${root}/new`, `${root}/file`);
  expect(spies.map(({ mock }) => mock.calls.length)).toEqual([calls, calls, calls]);
  expect(readFileSync(`${root}/file`, 'latin1')).toBe('bytes');
});

test('a long file is closed in a thread: without a name it is freed only then', async () => {
  const root = temporaryFolder();
  const closed = vi.spyOn(fs, 'closeSync');
  onTestFinished(() => void vi.restoreAllMocks());
  const openFiles = () => readdirSync('/proc/self/fd').filter((fd) => linkOf(fd)?.startsWith(root));
  for (const [bytes, atOnce] of [
    [1_000, 1],
    [200_000, 0],
  ] as const) {
    const file = await localDisk.create(`${root}/file`);
    await file.writeAt([Buffer.alloc(bytes)], 0);
    await localDisk.unlink(`${root}/file`);
    closed.mockClear();
    await file.close();
    expect(closed).toHaveBeenCalledTimes(atOnce);
    expect(openFiles()).toEqual([]);
  }
});

test('a small file is read at once if it is as long as expected, and else not at all', async () => {
  const root = temporaryFolder();
  await written(localDisk, `${root}/file`, 'bytes');
  await localDisk.makeLink('file', `${root}/link`);
  await written(localDisk, `${root}/large`, 'a'.repeat(256 * 1024));
  mkdirSync(`${root}/folder`);
  const isShort = vi.spyOn(Pace.prototype, 'isShort').mockReturnValue(true);
  onTestFinished(() => void vi.restoreAllMocks());
  const openFiles = () => readdirSync('/proc/self/fd').length;
  const before = process.platform === 'linux' ? openFiles() : 0;
  const read = (name: string, bytes: number, disk = localDisk) =>
    disk.readNow?.(`${root}/${name}`, bytes)?.toString();
  expect(read('file', 5)).toBe('bytes');
  for (const [name, bytes] of [
    ['file', 4],
    ['file', 6],
    ['link', 5],
    ['folder', 5],
    ['none', 5],
    ['large', 256 * 1024],
  ] as const) {
    expect([name, bytes, read(name, bytes)]).toEqual([name, bytes, undefined]);
  }
  if (process.platform === 'linux') expect(openFiles()).toBe(before);
  expect(read('file', 5, privateDisk)).toBeUndefined();
  isShort.mockReturnValue(false);
  expect(read('file', 5)).toBeUndefined();
});

test('a whole file is created at once, with its time, under a name that is free', async () => {
  const root = temporaryFolder();
  const isShort = vi.spyOn(Pace.prototype, 'isShort').mockReturnValue(true);
  onTestFinished(() => void vi.restoreAllMocks());
  const openFiles = () => readdirSync('/proc/self/fd').length;
  const before = process.platform === 'linux' ? openFiles() : 0;
  const chunks = [Buffer.from('by'), Buffer.alloc(0), Buffer.from('tes')];
  const create = (name: string, disk = unsynced) =>
    disk.createNow?.(`${root}/${name}`, chunks, 1234);
  expect(create('file')).toBe('created');
  expect(readFileSync(`${root}/file`, 'latin1')).toBe('bytes');
  const file = await localDisk.openToRead(`${root}/file`);
  expect(await file.stat()).toEqual({ size: 5, mtimeSeconds: 1234, isFile: true });
  await file.close();
  await localDisk.makeLink('nowhere', `${root}/dangling`);
  expect([create('file'), create('dangling')]).toEqual(['taken', 'taken']);
  expect(() => create('no/file')).toThrow('ENOENT');
  expect(await localDisk.list(root)).toEqual(['dangling', 'file']);
  if (process.platform === 'linux') expect(openFiles()).toBe(before);
  expect([create('other', localDisk), create('other', privateDisk)]).toEqual([
    undefined,
    undefined,
  ]);
  isShort.mockReturnValue(false);
  expect(create('other')).toBeUndefined();
  expect(await localDisk.list(root)).toEqual(['dangling', 'file']);
});

test('making a directory comes to its end where none can be made', async () => {
  await expect(localDisk.makeDirectory('/proc/none/of/these')).rejects.toThrow();
  const folder = temporaryFolder();
  mkdirSync(`${folder}/there`);
  await localDisk.makeDirectory(`${folder}/there`);
});

describe('after a power failure, the simulated disk', () => {
  const random = { below: () => 0, next: () => 0, pick: <T>(items: readonly T[]) => items[0]! };
  const survivors = (disk: SimulatedDisk, mode: 'lost' | 'kept') =>
    disk.crash(mode, random as never).contents();

  test('has lost a file whose name was not synced', async () => {
    const disk = new SimulatedDisk('/root');
    const file = await disk.create('/root/file');
    await file.writeAt([Buffer.from('text')], 0);
    await file.sync();
    expect(survivors(disk, 'lost')).toEqual([]);
    expect(survivors(disk, 'kept')).toEqual([['/file', Buffer.from('text')]]);
    await disk.syncDirectory('/root');
    expect(survivors(disk, 'lost')).toEqual([['/file', Buffer.from('text')]]);
  });

  test('has what was written durably, and nothing that was written before', async () => {
    const disk = new SimulatedDisk('/root');
    const file = await disk.create('/root/file');
    await disk.syncDirectory('/root');
    await file.writeAt([Buffer.from('lost')], 0);
    await file.writeDurablyAt!([Buffer.from('kept')], 4);
    expect(survivors(disk, 'lost')).toEqual([['/file', Buffer.from('\0\0\0\0kept')]]);
    disk.fail({ at: disk.operations + 2, code: 'EIO', once: true });
    await expect(file.writeDurablyAt!([Buffer.from('gone')], 8)).rejects.toMatchObject({
      code: 'EIO',
    });
    await file.sync();
    expect(survivors(disk, 'lost')).toEqual([['/file', Buffer.from('lostkept')]]);
  });

  test('has a file that was moved in one of its two places at least', async () => {
    const disk = new SimulatedDisk('/root');
    await disk.makeDirectory('/root/a');
    await replaceFile(disk, '/root', 'file', 'text');
    await disk.rename('/root/file', '/root/a/file');
    const names = (mode: 'lost' | 'kept') => survivors(disk, mode).map(([name]) => name);
    expect([names('lost'), names('kept')]).toEqual([['/file'], ['/a/file']]);
    await disk.syncDirectory('/root/a');
    expect(names('lost')).toEqual(['/a/file', '/file']);
    await disk.syncDirectory('/root');
    expect(names('lost')).toEqual(['/a/file']);
  });

  test('has lost a directory that the one above does not know durably, with all in it', async () => {
    const disk = new SimulatedDisk('/root');
    await disk.makeDirectory('/root/a/b');
    await replaceFile(disk, '/root/a/b', 'file', 'text');
    await disk.syncDirectory('/root/a');
    expect(survivors(disk, 'lost')).toEqual([]);
    await disk.syncDirectory('/root');
    expect(survivors(disk, 'lost').length).toBe(1);
  });
});

test.runIf(process.platform === 'linux')(
  'what is written once is on the medium when the write returns: the sync that is left out is not missed',
  async () => {
    const path = `${temporaryFolder()}/file`;
    const file = await localDisk.create(path, true);
    const fd = readdirSync('/proc/self/fd').find((each) => linkOf(each) === path);
    const flags = /^flags:\t(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1];
    expect(Number.parseInt(flags ?? '', 8) & constants.O_DSYNC).toBe(constants.O_DSYNC);
    await file.close();
  },
);

test.skipIf(process.platform === 'win32')('a pipe is opened at once, and is no file', async () => {
  const path = `${temporaryFolder()}/pipe`;
  execFileSync('mkfifo', [path]);
  const pipe = await localDisk.openToRead(path);
  expect((await pipe.stat()).isFile).toBe(false);
  await pipe.close();
  // Node 20's realpath, which finds modules, goes wrong after a look at a pipe, as a clean-up takes.
  await localDisk.unlink(path);
  statSync(import.meta.filename);
});

function linkOf(fd: string): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return undefined;
  }
}
