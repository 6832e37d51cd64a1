import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Costs } from '@stevedore/balance';
import { type DiskFile, decoratedDisk, localDisk } from '@stevedore/disk';
import { downloadFile } from '@stevedore/protocol';
import { systemEnvironment } from '@stevedore/wire';
import { describe, expect, it } from 'vitest';
import { openCosts } from '../../../packages/tiering/dist/scheduler/costs.js';
import { DiskMeter } from '../../../packages/tiering/dist/scheduler/disk-meter.js';
import { storageOf } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';
import { watchedDisk } from '../../support/watched-disk.js';

const KEPT: Costs = {
  bytesPerSecond: 1e9,
  accessBytes: 1e9,
  readAccessBytes: 1e9,
  readByteShare: 0.5,
};

/** On a clock that goes on by a tenth of a millisecond whenever somebody looks. */
async function storageWith(folder: string, bandwidth = 0) {
  const tiers = { enabled: true, thresholdBytes: 8192, intervalMs: 10, bytesPerSecond: bandwidth };
  let ms = 0;
  const uptimeMs = (): number => {
    ms += 0.1;
    return ms;
  };
  return storageOf({ folder, tiers, environment: { ...systemEnvironment, uptimeMs } });
}

function keptIn(folder: string): Costs {
  return JSON.parse(
    readFileSync(join(folder, 'data', '.stevedore-calibration.json'), 'utf8'),
  ) as Costs;
}

function keep(folder: string, costs: Costs): void {
  writeFileSync(join(folder, 'data', '.stevedore-calibration.json'), JSON.stringify(costs));
}

describe('the costs of a disk', () => {
  it('are measured at the first start, learnt from rows and files, and kept', async () => {
    const folder = temporaryFolder();
    const first = await storageWith(folder);
    expect(keptIn(folder).bytesPerSecond).toBeGreaterThan(0);
    await first.close();
    // A second for a synced write or a read: this disk is not as slow.
    keep(folder, KEPT);
    const second = await storageWith(folder);
    const client = await second.connect();
    for (let n = 0; n < 40; n += 1) await client.upload(Buffer.alloc(100, n));
    await second.close();
    const byRows = keptIn(folder);
    // What was not learnt would be 1 as before.
    expect(byRows.accessBytes / byRows.bytesPerSecond).toBeLessThan(0.99);
    expect(byRows.readAccessBytes / byRows.bytesPerSecond).toBeCloseTo(1, 6);
    const third = await storageWith(folder);
    const other = await third.connect();
    for (let n = 0; n < 40; n += 1) {
      const file = await other.upload(Buffer.alloc(20_000, n));
      await other.ask(downloadFile, { ...file, offset: 0, length: 10_000 });
    }
    await third.close();
    const byFiles = keptIn(folder);
    expect(byFiles.accessBytes / byFiles.bytesPerSecond).toBeLessThan(0.99);
    expect(byFiles.readAccessBytes / byFiles.bytesPerSecond).toBeLessThan(0.99);
  });

  it('hold where they are given', async () => {
    const folder = temporaryFolder();
    await (await storageWith(folder)).close();
    keep(folder, KEPT);
    const storage = await storageWith(folder, 100e6);
    await (await storage.connect()).upload(Buffer.alloc(100));
    await storage.close();
    expect(keptIn(folder)).toEqual(KEPT);
  });
});

describe('the costs of a disk whose times are known', () => {
  /** Takes 10 ms for a sync, 1 ms for a read, and of a byte less to read it than to write it. */
  function costsFrom(kept: string) {
    let ms = 0;
    const file = {
      stat: async () => ({ size: kept.length }),
      readAt: async (target: Buffer) => {
        ms += 1 + target.length / 1e6;
        return target.write(kept);
      },
      writeAt: async ([bytes]: readonly Uint8Array[]) => {
        ms += bytes!.length / 1e5;
      },
      sync: async () => {
        ms += 10;
      },
      close: async () => {},
    };
    const open = async () => file as unknown as DiskFile;
    const none = async () => {};
    const disk = decoratedDisk(localDisk, {
      create: open,
      openToRead: open,
      unlink: none,
      rename: none,
    });
    const meter = new DiskMeter(() => 0);
    return openCosts(decoratedDisk(disk, { syncDirectory: none }), '/data', () => ms, meter);
  }

  it('are the times that accesses take, in bytes written meanwhile', async () => {
    const costs = await costsFrom('');
    const msOf = (access: 'read' | 'write', bytes: number) =>
      (costs.of(access, bytes) / costs.bytesPerSecond) * 1000;
    expect(msOf('write', 1024)).toBeCloseTo(10 + 1024 / 1e5, 3);
    expect(msOf('read', 1024)).toBeCloseTo(1 + 1024 / 1e6, 3);
    const large = 2 * 2 ** 20;
    expect((large / costs.bytesPerSecond) * 1000).toBeCloseTo(10 + large / 1e5, 3);
    expect(msOf('read', large) - msOf('read', 0)).toBeCloseTo(1 + large / 1e6, 3);
  });

  it.each([
    ['nothing', ''],
    ['a part', JSON.stringify(KEPT).slice(0, 40)],
    ['a text', JSON.stringify({ ...KEPT, accessBytes: '5' })],
    ['a value too few', JSON.stringify({ ...KEPT, readByteShare: undefined })],
    ['a negative value', JSON.stringify({ ...KEPT, readAccessBytes: -1 })],
    ['no bandwidth', JSON.stringify({ ...KEPT, bytesPerSecond: 0 })],
  ])('are measured again where %s is kept of them', async (_what, kept) => {
    const { bytesPerSecond } = await costsFrom(kept);
    expect(bytesPerSecond).toBe((await costsFrom('')).bytesPerSecond);
  });

  it('are taken as they are kept, also where an access costs nothing', async () => {
    const costs = await costsFrom(JSON.stringify({ ...KEPT, accessBytes: 0 }));
    expect(costs.bytesPerSecond).toBe(KEPT.bytesPerSecond);
    expect([costs.of('write', 7), costs.of('read', 8)]).toEqual([7, 1e9 + 4]);
  });
});

describe('the meter of a disk', () => {
  it('shares the time among what is under way at once, and counts a write when it is synced', async () => {
    const clock = { ms: 0 };
    const meter = new DiskMeter(() => clock.ms);
    const ends: (() => void)[] = [];
    const work = () => new Promise<void>((resolve) => ends.push(resolve));
    const read = meter.time('read', { count: 1, bytes: 10 }, work);
    clock.ms = 4;
    const write = meter.time('write', { count: 1, bytes: 20 }, work);
    clock.ms = 10;
    ends.shift()!();
    await read;
    clock.ms = 15;
    ends.shift()!();
    await write;
    // Nothing is under way.
    clock.ms = 100;
    expect(meter.endInterval()).toEqual({
      read: { count: 1, bytes: 10, ms: 7 },
      write: { count: 1, bytes: 20, ms: 8 },
    });
    expect(meter.endInterval().read.count).toBe(0);
  });

  it('meters a file and its directory, also where they fail', async () => {
    const clock = { ms: 0 };
    const meter = new DiskMeter(() => (clock.ms += 1));
    const folder = temporaryFolder();
    const done: string[] = [];
    const watched = watchedDisk(({ operation }, run) => {
      done.push(operation);
      return run();
    });
    const disk = meter.metered(watched);
    const file = await disk.create(join(folder, 'file'));
    await file.writeAt([Buffer.alloc(10), Buffer.alloc(20)], 0);
    expect(meter.endInterval().write).toMatchObject({ count: 0, bytes: 30 });
    await file.sync();
    await disk.syncDirectory(folder);
    expect(done).toEqual(['create', 'writeAt', 'sync', 'syncDirectory']);
    const { write } = meter.endInterval();
    expect(write).toMatchObject({ count: 1, bytes: 0, ms: 2 });
    await file.readAt(Buffer.alloc(8), 0);
    await file.close();
    await expect(file.readAt(Buffer.alloc(8), 0)).rejects.toThrow();
    expect(meter.endInterval().read).toMatchObject({ count: 2, bytes: 16, ms: 2 });
  });
});
