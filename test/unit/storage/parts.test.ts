import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Disk, localDisk } from '@stevedore/disk';
import { describe, expect, it } from 'vitest';
import { filesOnDisk } from '../../../packages/storage/dist/files/files-on-disk.js';
import { OpenFiles } from '../../../packages/storage/dist/files/open-files.js';
import { StateFile } from '../../../packages/storage/dist/state-file.js';
import { temporaryFolder } from '../../support/temporary.js';
import { watchedDisk } from '../../support/watched-disk.js';

const noError = (error: Error): void => {
  throw error;
};

const onDisk = (disk: Disk) => filesOnDisk(disk, () => '');

describe('the open files', () => {
  it('are shared, and at most so many stay open unused', async () => {
    const folder = temporaryFolder();
    const files = new OpenFiles(onDisk(localDisk), 2, noError);
    const paths = ['a', 'b', 'c'].map((name) => join(folder, name));
    for (const path of paths) await writeFile(path, path);
    const [one, same] = await Promise.all([files.acquire(paths[0]!), files.acquire(paths[0]!)]);
    expect(one!.file).toBe(same!.file);
    one!.release();
    expect(files.idle).toBe(0);
    same!.release();
    for (const path of paths) (await files.acquire(path)).release();
    expect(files.idle).toBe(2);
    files.close();
    expect(files.idle).toBe(0);
  });

  it('that are forgotten serve those who read them to the end', async () => {
    const path = join(temporaryFolder(), 'file');
    await writeFile(path, 'content');
    const files = new OpenFiles(onDisk(localDisk), 2, noError);
    const reader = await files.acquire(path);
    await localDisk.unlink(path);
    files.forget(path);
    const target = Buffer.alloc(7);
    expect(await reader.file.readAt(target, 0)).toBe(7);
    reader.release();
    await expect(files.acquire(path)).rejects.toMatchObject({ status: 2 });
    expect(files.idle).toBe(0);
  });

  it('are fewer for good where the system has no more descriptors', async () => {
    const folder = temporaryFolder();
    const most = 4;
    let open = 0;
    const limited = watchedDisk(async ({ operation }, run) => {
      if (operation === 'close') open -= 1;
      if (operation !== 'openToRead') return run();
      if (open >= most) throw Object.assign(new Error('no descriptors'), { code: 'EMFILE' });
      open += 1;
      return run();
    });
    const files = new OpenFiles(onDisk(limited), 100, noError);
    for (let index = 0; index < 10; index++) {
      const path = join(folder, String(index));
      await writeFile(path, 'content');
      (await files.acquire(path)).release();
      expect(open).toBeLessThanOrEqual(most);
    }
    expect(files.idle).toBe(2);
    files.close();
  });

  it('do not stay open if their content is in memory', async () => {
    const path = join(temporaryFolder(), 'file');
    await writeFile(path, 'content');
    const backend = onDisk(localDisk);
    let opened = 0;
    backend.openToRead = async (name) => {
      opened += 1;
      return Object.assign(await localDisk.openToRead(name), { bytes: Buffer.from('content') });
    };
    const files = new OpenFiles(backend, 2, noError);
    (await files.acquire(path)).release();
    expect(files.idle).toBe(0);
    (await files.acquire(path)).release();
    expect(opened).toBe(2);
  });

  it('are files: a directory is status 21', async () => {
    const path = join(temporaryFolder(), 'directory');
    await mkdir(path);
    const files = new OpenFiles(onDisk(localDisk), 2, noError);
    await expect(files.acquire(path)).rejects.toMatchObject({ status: 21 });
  });
});

it('the state file gives back what was saved last and nothing from a damaged one', async () => {
  const folder = temporaryFolder();
  const state = new StateFile(localDisk, folder, noError);
  expect(await state.load()).toBeUndefined();
  const pair = { high: 1, low: 2, files: 3 };
  const saved = { joinedAtSeconds: 1_800_000_000, complete: false, ...pair };
  await Promise.all([state.save({ ...saved, files: 1 }), state.save({ ...saved, files: 2 })]);
  await state.save(saved);
  expect(await state.load()).toEqual(saved);
  for (const text of ['', '{', 'null', '{"version":2}', '{"version":1,"high":-1}']) {
    await writeFile(join(folder, '.stevedore-storage.json'), text);
    expect(await state.load()).toBeUndefined();
  }
});
