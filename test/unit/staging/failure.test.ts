import { randomBytes } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Disk, type DiskFile, decoratedDisk, decoratedFile, localDisk } from '@stevedore/disk';
import { fileIdOf, formatKey, parseKey } from '@stevedore/staging';
import { describe, expect, test, vi } from 'vitest';
import { MemoryTrunkStore } from '../../support/memory-trunk-store.js';
import { turnBit } from '../../support/rot.js';
import { openStaging, segmentsIn, spoolFile, stageFile, until } from '../../support/staging.js';
import { temporaryFolder } from '../../support/temporary.js';

const MIB = 2 ** 20;

test('what is merged gives an upload its room in a full container, although it would be retained', async () => {
  const options = { containerSize: 2 * MIB, retain: 2 * MIB, segmentBytes: 64 * 1024 };
  const { staging } = await openStaging(temporaryFolder(), options);
  for (let count = 0; count < 30; count += 1) {
    await stageFile(staging, randomBytes(100_000));
    if (count % 10 === 9) await staging.merging.flush();
  }
});

test('when FastDFS is back after an hour, the full container is drained, oldest first, without a pause, and takes files again', async () => {
  const HOUR_MS = 3_600_000;
  const FILE_BYTES = 10_000;
  const FILES_OF_TRUNK = 25;
  let clock = 1_700_000_000_000;
  const store = new MemoryTrunkStore();
  store.isAway = true;
  const options = {
    trunkSize: (FILE_BYTES + 400) * FILES_OF_TRUNK,
    containerSize: 4 * MIB,
    segmentBytes: 256 * 1024,
    retain: 0,
    mergeMaxAge: 60_000,
    now: () => clock,
  };
  const { staging } = await openStaging(temporaryFolder(), options, store);
  const numbers = new Map<string, number>();
  const put = async () => {
    const key = await stageFile(staging, randomBytes(FILE_BYTES));
    numbers.set(formatKey(key), numbers.size);
  };
  const fill = async () => {
    for (;;) await put();
  };
  await expect(fill()).rejects.toMatchObject({ code: 'container_full', retryable: true });
  await expect(staging.acceptance.beginSpooled(staging.keys.next(), MIB)).rejects.toMatchObject({
    code: 'container_full',
  });
  const staged = numbers.size;
  expect(staged).toBeGreaterThan(300);
  clock += HOUR_MS;
  await expect(put()).rejects.toMatchObject({ code: 'container_full' });
  expect(staging.stats()).toMatchObject({ waitingFiles: staged, mergedFiles: 0 });
  const trunks: number[][] = [];
  staging.changes.on('trunk', ({ fileId }) => {
    const rows = [...numbers].filter(
      ([key]) => staging.fileMap.find(parseKey(key)!)?.trunk?.fileId === fileId,
    );
    trunks.push(rows.map(([, number]) => number));
  });
  store.isAway = false;
  await until(() => staging.stats().mergedFiles >= staged);
  await until(() => staging.acceptance.refusal() === undefined);
  await until(() => staging.stats().room.full === undefined);
  await put();
  // What was staged first is in the first trunks, but for the play that filling them needs.
  for (const [index, members] of trunks.entries()) {
    const first = Math.min(...members);
    expect(first).toBeLessThanOrEqual((index + 2) * FILES_OF_TRUNK);
    expect(Math.max(...members)).toBeLessThan((index + 6) * FILES_OF_TRUNK);
  }
  expect(trunks.flat().length).toBeGreaterThanOrEqual(staged);
});

test('what a listener throws is reported, and the trunk is not sent again', async () => {
  const { staging, store, errors } = await openStaging(temporaryFolder());
  staging.changes.on('merged', () => {
    throw new Error('the listener fails');
  });
  await stageFile(staging, randomBytes(500));
  await staging.merging.flush();
  expect(errors.map(({ message }) => message)).toEqual(['the listener fails']);
  expect(staging.stats()).toMatchObject({ trunks: 1, sendRetries: 0 });
  expect(store.files.size).toBe(1);
});

test('a trunk that is being sent when the store closes is no error', async () => {
  const store = new MemoryTrunkStore();
  let isSent = false;
  store.beforeStore = () => {
    isSent = true;
    return new Promise(() => undefined);
  };
  const { staging, errors } = await openStaging(temporaryFolder(), {}, store);
  await stageFile(staging, randomBytes(500));
  const flushing = staging.merging.flush();
  await until(() => isSent);
  await Promise.all([staging.close(), flushing]);
  expect(errors).toEqual([]);
});

/** A disk with room for so many bytes. */
function boundedDisk(room: { bytes: number; used: number }): Disk {
  const sizes = new Map<string, number>();
  const resize = (path: string, size: number) => {
    const grown = size - (sizes.get(path) ?? 0);
    if (grown > 0 && room.used + grown > room.bytes) {
      throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' });
    }
    room.used += grown;
    sizes.set(path, size);
  };
  const create = async (path: string): Promise<DiskFile> => {
    const file = await localDisk.create(path);
    return decoratedFile(file, {
      writeAt: async (chunks, position) => {
        const end = position + chunks.reduce((sum, { length }) => sum + length, 0);
        if (end > (sizes.get(path) ?? 0)) resize(path, end);
        await file.writeAt(chunks, position);
      },
      truncate: async (size) => {
        resize(path, size);
        await file.truncate(size);
      },
    });
  };
  const unlink = async (path: string) => {
    await localDisk.unlink(path);
    resize(path, 0);
  };
  return decoratedDisk(localDisk, { create, unlink });
}

describe('a disk', () => {
  test('that is full to the last byte takes files again once what is merged has gone', async () => {
    const room = { bytes: Number.POSITIVE_INFINITY, used: 0 };
    const folder = temporaryFolder();
    const { staging } = await openStaging(folder, {
      disk: boundedDisk(room),
      retain: 64 * MIB,
      minFreeBytes: 0,
    });
    for (let count = 0; count < 4; count += 1) await stageFile(staging, randomBytes(900_000));
    await staging.merging.flush();
    const reserve = join(folder, 'container', 'reserve');
    await until(() => (statSync(reserve, { throwIfNoEntry: false })?.size ?? 0) > 0);
    expect(staging.acceptance.refusal()).toBeUndefined();
    room.bytes = room.used;
    const refused = stageFile(staging, randomBytes(100_000)).catch((failure: unknown) => {
      throw staging.acceptance.noteFailure(failure);
    });
    await expect(refused).rejects.toMatchObject({ code: 'disk_full' });
    expect(staging.acceptance.refusal()).toBe('disk_full');
    expect(staging.stats().room.full).toBe('disk');
    // By itself: nobody uploads where uploads are refused.
    await until(() => staging.acceptance.refusal() === undefined);
    await stageFile(staging, randomBytes(100_000));
    expect(readdirSync(join(folder, 'container'))).not.toContain('0000000001.seg');
  });

  test('is known to refuse uploads until a trial works, whatever its free bytes are', async () => {
    let code: string | undefined;
    const failIf = () => {
      if (code) throw Object.assign(new Error(`${code}: it fails`), { code });
    };
    const wrap = (file: DiskFile) =>
      decoratedFile(file, {
        writeAt: async (chunks, position) => {
          failIf();
          await file.writeAt(chunks, position);
        },
      });
    const disk: Disk = decoratedDisk(localDisk, {
      create: async (path) => wrap(await localDisk.create(path)),
    });
    const { staging } = await openStaging(temporaryFolder(), { disk });
    for (const [error, refusal] of [
      ['EDQUOT', 'disk_full'],
      ['EIO', 'disk_failed'],
      ['EMFILE', 'overloaded'],
    ] as const) {
      code = error;
      const upload = spoolFile(staging, randomBytes(MIB)).catch((failure: unknown) => {
        throw staging.acceptance.noteFailure(failure);
      });
      await expect(upload).rejects.toMatchObject({ code: refusal });
      expect(staging.acceptance.refusal()).toBe(refusal);
      code = undefined;
      await until(() => staging.acceptance.refusal() === undefined);
    }
  });

  test('counts the room of each folder, which may be a disk of its own', async () => {
    const space = async (path: string) => ({
      totalBytes: 2 ** 40,
      freeBytes: path.endsWith('/spool') ? 1000 : 2 ** 40,
    });
    const { staging } = await openStaging(temporaryFolder(), {
      disk: decoratedDisk(localDisk, { space }),
    });
    expect(staging.acceptance.refusal()).toBe('disk_full');
  });
});

describe('when the disk fails', () => {
  /** A disk on which the n-th sync of a segment fails. */
  function failingSync(fail: () => boolean): Disk {
    const failed = () => Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' }));
    const wrap = (file: DiskFile) =>
      decoratedFile(file, { sync: () => (fail() ? failed() : file.sync()) });
    return decoratedDisk(localDisk, { create: async (path) => wrap(await localDisk.create(path)) });
  }

  test('one that does not answer a write takes no uploads until it does', async () => {
    let isHung = false;
    const waiting: (() => void)[] = [];
    const wrap = (file: DiskFile) =>
      decoratedFile(file, {
        sync: async () => {
          if (isHung) await new Promise<void>((resolve) => waiting.push(resolve));
          await file.sync();
        },
      });
    const disk = decoratedDisk(localDisk, {
      create: async (path: string) => wrap(await localDisk.create(path)),
    });
    const { staging } = await openStaging(temporaryFolder(), { disk });
    await stageFile(staging, Buffer.from('before'));
    isHung = true;
    const late = stageFile(staging, Buffer.from('late'));
    await until(() => waiting.length > 0);
    expect(staging.acceptance.refusal()).toBeUndefined();
    const later = performance.now() + 10_001;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => later);
    expect(staging.acceptance.refusal()).toBe('disk_failed');
    isHung = false;
    for (const answer of waiting) answer();
    await late;
    expect(staging.acceptance.refusal()).toBeUndefined();
    clock.mockRestore();
  });

  test('a failed sync refuses its files, ends the segment, and the next one takes over', async () => {
    let failing = false;
    const folder = temporaryFolder();
    const { staging } = await openStaging(folder, { disk: failingSync(() => failing) });
    const before = await stageFile(staging, Buffer.from('before'));
    failing = true;
    const refused = staging.keys.next();
    await expect(stageFile(staging, Buffer.from('refused'))).rejects.toMatchObject({
      code: 'disk_failed',
      retryable: true,
    });
    failing = false;
    const after = await stageFile(staging, Buffer.from('after'));
    expect(staging.fileMap.find(refused)).toBeUndefined();
    expect(await staging.local.read(staging.fileMap.find(before)!)).toEqual(Buffer.from('before'));
    expect(await staging.local.read(staging.fileMap.find(after)!)).toEqual(Buffer.from('after'));
    expect(staging.fileMap.find(after)!.local.segment).toBeGreaterThan(
      staging.fileMap.find(before)!.local.segment,
    );
    await staging.close();
    const again = await openStaging(folder);
    expect(again.staging.stats().waitingFiles).toBe(2);
  });

  test('a file found damaged while its trunk is sent is left out, and the others go', async () => {
    /** As one whose upload fails with what its source throws. */
    class Wrapping extends MemoryTrunkStore {
      override async store(...request: Parameters<MemoryTrunkStore['store']>): Promise<string> {
        return await super.store(...request).catch((cause: unknown) => {
          throw new Error('the upload failed', { cause });
        });
      }
    }
    const folder = temporaryFolder();
    const first = await openStaging(folder);
    const contents = [randomBytes(500), randomBytes(600), randomBytes(700)];
    const keys: Buffer[] = [];
    for (const bytes of contents) keys.push(await stageFile(first.staging, bytes));
    await first.staging.close();
    turnBit(join(folder, 'container'), contents[1]!);
    const { staging, store, errors } = await openStaging(folder, {}, new Wrapping());
    await staging.merging.flush();
    const ids = keys.map((key) => fileIdOf(staging.fileMap.find(key)!));
    expect(ids).toEqual([expect.any(String), undefined, expect.any(String)]);
    expect(staging.stats()).toMatchObject({ unpackableFiles: 1, sendRetries: 0 });
    expect(store.files.size).toBe(1);
    expect(errors[0]!.message).toBe('the upload failed');
  });

  test('files whose plan is not recorded go into the next', async () => {
    let failing = false;
    const disk = failingSync(() => failing);
    const { staging, errors } = await openStaging(temporaryFolder(), { disk });
    const key = await stageFile(staging, randomBytes(500));
    failing = true;
    const flushing = staging.merging.flush();
    await until(() => errors.length > 0);
    failing = false;
    await flushing;
    expect(fileIdOf(staging.fileMap.find(key)!)).toBeDefined();
  });
});

test('retained segments go oldest first once FastDFS has all of them, and what is needed moves on', async () => {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  const options = { segmentBytes: 16 * 1024, retain: 0 };
  const { staging } = await openStaging(folder, options, store);
  const keys: Buffer[] = [];
  for (let index = 0; index < 20; index++) keys.push(await stageFile(staging, randomBytes(5000)));
  const large = await spoolFile(staging, randomBytes(2 * MIB));
  await staging.merging.flush();
  await staging.deletions.delete(keys[0]!);
  // A second round pushes the first one's segments out.
  for (let index = 0; index < 20; index++) keys.push(await stageFile(staging, randomBytes(5000)));
  await staging.merging.flush();
  await until(() => segmentsIn(folder).length <= 1);
  expect(readdirSync(join(folder, 'spool'))).toEqual([]);
  expect(staging.local.has(staging.fileMap.find(large)!)).toBe(false);
  expect(staging.fileMap.isDeleted(keys[0]!)).toBe(true);
  expect(await staging.local.read(staging.fileMap.find(keys[1]!)!)).toBeUndefined();
  const ids = keys.slice(1).map((key) => fileIdOf(staging.fileMap.find(key)!));
  await staging.close();
  const again = await openStaging(folder, options, store);
  expect(keys.slice(1).map((key) => fileIdOf(again.staging.fileMap.find(key)!))).toEqual(ids);
  expect(again.staging.fileMap.isDeleted(keys[0]!)).toBe(true);
});
