import { cpSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { decoratedDisk, localDisk } from '@stevedore/disk';
import { openDatabase } from '@stevedore/disk/sqlite';
import type { StorageOptions } from '@stevedore/node';
import { deleteFile, type FileName, makeSliceId, migrationControl } from '@stevedore/protocol';
import type { TierOptions } from '@stevedore/tiering';
import type { MigrationStatus } from '@stevedore/tiering/control';
import { describe, expect, it } from 'vitest';
import { idOf, pathOf, type RawClient, storageOf, until } from '../../support/storage/support.js';
import { trunkOf } from '../../support/storage/trunks.js';
import { temporaryFolder } from '../../support/temporary.js';
import { watchedDisk } from '../../support/watched-disk.js';

/** Slices that are read often: they are rows, and their trunk stays the truth. */

const KIB = 1024;
const TIERS: TierOptions = {
  enabled: true,
  thresholdBytes: 16 * KIB,
  parameters: { maximumThresholdBytes: 16 * KIB },
  bytesPerSecond: 100e6,
};
/** The last one is too large for a row. */
const CONTENTS = [...Array(8).keys(), 40].map((n) =>
  Buffer.alloc(n === 40 ? 40 * KIB : 10 * KIB, `slice ${n} of the trunk;`),
);
/** Reads after which a slice is a row. */
const OFTEN = 3;

/** A disk that tells of reads, and of removals before and after they are made. */
function seenDisk() {
  const seen = {
    /** Files from which bytes were read, one entry for each read. */
    reads: [] as string[],
    /** Called before a file is removed, and once it has been. */
    onUnlink: async (_path: string, _isGone: boolean): Promise<void> => {},
    /** Called once bytes were read, before they are given out. */
    onRead: async (_path: string): Promise<void> => {},
  };
  const disk = watchedDisk(async ({ operation, path }, run) => {
    if (operation === 'unlink') await seen.onUnlink(path, false);
    const result = await run();
    if (operation === 'unlink') await seen.onUnlink(path, true);
    if (operation === 'readAt') {
      seen.reads.push(path);
      await seen.onRead(path);
    }
    return result;
  });
  return { disk, seen };
}

/** Without a cache in memory, which would hide what is read from where. */
async function started(folder: string, options: Partial<StorageOptions> = {}) {
  const { disk, seen } = seenDisk();
  const storage = await storageOf({ folder, disk, tiers: TIERS, cacheBytes: 0, ...options });
  return { folder, seen, storage, client: await storage.connect() };
}

async function loaded(options: Partial<StorageOptions> = {}) {
  const setting = await started(temporaryFolder(), options);
  const trunk = trunkOf(CONTENTS);
  const file = await setting.client.upload(trunk.bytes, 'merged');
  const slices = trunk.entries.map((entry) => {
    const id = makeSliceId(idOf(file), entry, 'txt');
    return { group: file.group, name: id.slice(file.group.length + 1) };
  });
  return { ...setting, trunk, file, slices, path: pathOf(setting.folder, file) };
}

async function readTimes(client: RawClient, file: FileName, times: number) {
  for (let n = 0; n < times; n += 1) await client.read(file);
}

/** What is in the rows, as another program sees it; undefined if there is no table. */
function rowsIn(folder: string): { position: number; size: number }[] | undefined {
  const path = join(folder, 'data', '.stevedore-files.sqlite');
  if (!existsSync(path)) return undefined;
  const db = openDatabase(path, { readonly: true });
  try {
    return db.prepare('SELECT position, size FROM slices ORDER BY position').all() as never;
  } finally {
    db.close();
  }
}

describe('a slice', () => {
  it('that is read often becomes a row, and its trunk is read no more', async () => {
    const { client, seen, slices, path, storage, folder } = await loaded();
    await readTimes(client, slices[0]!, OFTEN);
    expect(seen.reads).toContain(path);
    seen.reads.length = 0;
    expect(await client.read(slices[0]!)).toEqual(CONTENTS[0]);
    expect(await client.read(slices[0]!, 100, 50)).toEqual(CONTENTS[0]!.subarray(100, 150));
    expect(seen.reads).toEqual([]);
    expect(await client.read(slices[1]!)).toEqual(CONTENTS[1]);
    expect(seen.reads).toEqual([path]);
    await storage.close();
    expect(rowsIn(folder)!.map(({ size }) => size)).toEqual([CONTENTS[0]!.length]);
    expect(storage.errors).toEqual([]);
  });

  it('is known as one by its place in the trunk, as a gateway asks for it', async () => {
    const { client, seen, slices, file, trunk } = await loaded();
    const { offset, size } = trunk.entries[2]!;
    for (let n = 0; n < OFTEN; n += 1) await client.read(file, offset, size);
    seen.reads.length = 0;
    expect(await client.read(file, offset, size)).toEqual(CONTENTS[2]);
    expect(await client.read(slices[2]!)).toEqual(CONTENTS[2]);
    expect(seen.reads).toEqual([]);
    // Other bytes than those of a slice are never a row, nor are those of a deleted one.
    for (let n = 0; n < 2 * OFTEN; n += 1) {
      expect(await client.read(file, offset, size - 1)).toEqual(CONTENTS[2]!.subarray(0, -1));
    }
    expect((await client.ask(deleteFile, slices[2]!)).status).toBe(0);
    expect(await client.read(slices[2]!)).toBe(2);
    expect(await client.read(file, offset, size)).toEqual(CONTENTS[2]);
  });

  it('is small-file load, however it is asked for', async () => {
    const { client, slices, file, trunk } = await loaded({ tiers: { ...TIERS, intervalMs: 20 } });
    const { offset, size } = trunk.entries[0]!;
    const served = async () => {
      const { answer } = await client.ask(migrationControl, 'status');
      return (JSON.parse(answer!.toString()) as MigrationStatus).load.smallFile.servedRequests;
    };
    for (const ask of [() => client.read(slices[0]!), () => client.read(file, offset, size)]) {
      await until(async () => (await served()) === 0);
      await until(async () => {
        await ask();
        return (await served()) > 0;
      });
    }
  });

  it('that is read rarely, or is larger than the threshold, does not', async () => {
    const { client, seen, slices, path, storage, folder } = await loaded();
    for (const slice of slices.slice(0, 8)) await readTimes(client, slice, OFTEN - 1);
    await readTimes(client, slices[8]!, 3 * OFTEN);
    seen.reads.length = 0;
    expect(await client.read(slices[8]!)).toEqual(CONTENTS[8]);
    expect(seen.reads).toContain(path);
    await storage.close();
    expect(rowsIn(folder)).toEqual([]);
  });

  it('is not looked for among the rows where the tier is off again', async () => {
    const { client, storage, slices, folder, path } = await loaded();
    await readTimes(client, slices[0]!, OFTEN);
    await storage.close();
    const off = await started(folder, { tiers: {} });
    await readTimes(off.client, slices[1]!, 3 * OFTEN);
    off.seen.reads.length = 0;
    expect(await off.client.read(slices[0]!)).toEqual(CONTENTS[0]);
    expect(off.seen.reads).toEqual([path]);
    await off.storage.close();
    expect(rowsIn(folder)!.length).toBe(1);
  });

  it('stays a row over a restart, for which its trunk need not be read', async () => {
    const { client, storage, slices, folder, file, trunk } = await loaded();
    await readTimes(client, slices[0]!, OFTEN);
    await storage.close();
    // That the threshold has shrunk is no reason to read the trunk.
    const again = await started(folder, { tiers: { ...TIERS, thresholdBytes: 4 * KIB } });
    again.seen.reads.length = 0;
    const { offset, size } = trunk.entries[0]!;
    expect(await again.client.read(slices[0]!)).toEqual(CONTENTS[0]);
    expect(await again.client.read(file, offset, size)).toEqual(CONTENTS[0]);
    expect(again.seen.reads).toEqual([]);
  });

  it('with a damaged row is read from its trunk, and gets a sound row', async () => {
    const { client, storage, slices, folder, path } = await loaded();
    await readTimes(client, slices[0]!, OFTEN);
    await storage.close();
    const db = openDatabase(join(folder, 'data', '.stevedore-files.sqlite'));
    db.prepare('UPDATE slices SET bytes = zeroblob(size)').run();
    db.close();
    const again = await started(folder);
    expect(await again.client.read(slices[0]!)).toEqual(CONTENTS[0]);
    expect(again.seen.reads).toContain(path);
    expect(again.storage.errors.map(({ message }) => message)).toEqual([
      expect.stringMatching(/the row of .* is damaged/),
    ]);
    await readTimes(again.client, slices[0]!, OFTEN);
    again.seen.reads.length = 0;
    expect(await again.client.read(slices[0]!)).toEqual(CONTENTS[0]);
    expect(again.seen.reads).toEqual([]);
  });
});

describe('a deletion', () => {
  it('of a slice takes its row along, and no other', async () => {
    const { client, storage, slices, folder, trunk } = await loaded();
    for (const slice of slices.slice(0, 2)) await readTimes(client, slice, OFTEN);
    expect((await client.ask(deleteFile, slices[0]!)).status).toBe(0);
    await storage.close();
    expect(rowsIn(folder)!.map(({ position }) => position)).toEqual([trunk.entries[1]!.offset]);
    const again = await started(folder);
    expect(await again.client.read(slices[0]!)).toBe(2);
    expect(await again.client.read(slices[1]!)).toEqual(CONTENTS[1]);
  });

  it('of a trunk takes the rows of its slices along', async () => {
    const { client, storage, slices, folder, file } = await loaded();
    for (const slice of slices.slice(0, 2)) await readTimes(client, slice, OFTEN);
    expect((await client.ask(deleteFile, file)).status).toBe(0);
    await storage.close();
    expect(rowsIn(folder)).toEqual([]);
    const again = await started(folder);
    for (const slice of slices) expect(await again.client.read(slice)).toBe(2);
  });

  it.each(['before', 'after'])('leaves no row that is made %s the trunk goes', async (when) => {
    const { client, storage, slices, folder, file, seen, path } = await loaded();
    const reader = await storage.connect();
    await readTimes(client, slices[0]!, OFTEN - 1);
    seen.onUnlink = async (unlinked, isGone) => {
      if (unlinked === path && isGone === (when === 'after')) await reader.read(slices[0]!);
    };
    expect((await client.ask(deleteFile, file)).status).toBe(0);
    await storage.close();
    expect(rowsIn(folder)).toEqual([]);
  });

  it.each(['slice', 'trunk'])('of a %s leaves no row of what is just being read', async (what) => {
    const { client, storage, slices, folder, file, seen, path } = await loaded();
    const other = await storage.connect();
    await readTimes(client, slices[0]!, OFTEN - 1);
    const statuses: number[] = [];
    seen.onRead = async (read) => {
      if (read !== path || statuses.length > 0) return;
      statuses.push(-1);
      const gone = what === 'slice' ? slices[0]! : file;
      statuses.push((await other.ask(deleteFile, gone)).status);
    };
    await client.read(slices[0]!);
    expect(statuses).toEqual([-1, 0]);
    await storage.close();
    expect(rowsIn(folder)).toEqual([]);
  });

  /** As a crash leaves it that has lost what the records did not commit. */
  type Loaded = Awaited<ReturnType<typeof loaded>>;

  async function withOldRows(remove: (setting: Loaded) => FileName) {
    const setting = await loaded();
    const { client, storage, slices, folder } = setting;
    await readTimes(client, slices[0]!, OFTEN);
    await storage.close();
    const kept = temporaryFolder();
    const isRecord = (path: string) => path.includes('.stevedore-files.sqlite');
    const data = join(folder, 'data');
    cpSync(data, kept, { recursive: true, filter: (path) => path === data || isRecord(path) });
    const second = await started(folder);
    expect((await second.client.ask(deleteFile, remove(setting))).status).toBe(0);
    await second.storage.close();
    cpSync(kept, data, { recursive: true });
    expect(rowsIn(folder)!.length).toBe(1);
    return { ...setting, again: await started(folder) };
  }

  it.each([
    ['slice', ({ slices: [first] }: Loaded) => first!],
    ['trunk', ({ file }: Loaded) => file],
  ])('of a %s holds although a crash has left its row', async (_, gone) => {
    const { again, slices, folder } = await withOldRows(gone);
    expect(await again.client.read(slices[0]!)).toBe(2);
    await again.storage.close();
    expect(rowsIn(folder)).toEqual([]);
  });
});

describe('the room for rows', () => {
  it('goes to what is read more, and slices that are asked for least make way', async () => {
    // Room for three of them.
    const tiers = { ...TIERS, roomBytes: 40 * KIB };
    const { client, slices, storage, folder, trunk } = await loaded({ tiers });
    for (const index of [0, 1, 2]) await readTimes(client, slices[index]!, OFTEN + 3 - index);
    await readTimes(client, slices[3]!, OFTEN + 5);
    await readTimes(client, slices[4]!, OFTEN);
    await storage.close();
    const at = [0, 1, 3].map((index) => trunk.entries[index]!.offset);
    expect(rowsIn(folder)!.map(({ position }) => position)).toEqual(at);
  });

  it('on a disk that is nearly full is left to files', async () => {
    const { slices, storage, folder } = await loaded();
    await storage.close();
    const disk = decoratedDisk(localDisk, {
      space: async () => ({ totalBytes: 2 ** 40, freeBytes: 0 }),
    });
    const again = await started(folder, { disk });
    await readTimes(again.client, slices[0]!, 3 * OFTEN);
    await again.storage.close();
    expect(rowsIn(folder)).toEqual([]);
  });
});
