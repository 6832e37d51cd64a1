import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  decodeFields,
  deleteFile,
  downloadFile,
  type FileName,
  getMetadata,
  migrationControl,
  queryFileInfo,
  regenerateAppender,
  setMetadata,
  truncateFile,
} from '@stevedore/protocol';
import type { TierOptions } from '@stevedore/tiering';
import type { MigrationStatus } from '@stevedore/tiering/control';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Pace } from '../../../packages/disk/dist/pace.js';
import { idOf, pathOf, type RawClient, storageOf, until } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A storage with a metadata tier, asked over the wire as any client would. */

const TIERS: TierOptions = {
  enabled: true,
  thresholdBytes: 8192,
  parameters: { maximumThresholdBytes: 8192 },
  bytesPerSecond: 100e6,
  intervalMs: 20,
};

async function status(client: RawClient): Promise<MigrationStatus> {
  const { answer } = await client.ask(migrationControl, 'status');
  return JSON.parse(answer!.toString()) as MigrationStatus;
}

describe('a storage with a metadata tier', () => {
  it.each(['sync', 'os'] as const)(
    'keeps small files in rows, with their metadata, over restarts, with durability %s',
    async (durability) => {
      const folder = temporaryFolder();
      // A disk on which what is no row would be created at once.
      vi.spyOn(Pace.prototype, 'isShort').mockReturnValue(true);
      onTestFinished(() => void vi.restoreAllMocks());
      const storage = await storageOf({ folder, tiers: TIERS, durability });
      const client = await storage.connect();
      const small = await client.upload(Buffer.from('a small file'));
      const large = await client.upload(Buffer.alloc(20_000, 3));
      const metadata = Buffer.from('width\x02100');
      for (const file of [small, large]) {
        const set = await client.ask(setMetadata, { ...file, mode: 'overwrite', metadata });
        expect(set.status).toBe(0);
      }
      expect(existsSync(pathOf(folder, small))).toBe(false);
      expect(existsSync(`${pathOf(folder, small)}-m`)).toBe(false);
      expect(existsSync(pathOf(folder, large))).toBe(true);
      await storage.close();
      const again = await storageOf({ folder, tiers: TIERS, durability });
      const other = await again.connect();
      expect(await other.read(small)).toEqual(Buffer.from('a small file'));
      expect(await other.read(large)).toEqual(Buffer.alloc(20_000, 3));
      expect((await other.ask(getMetadata, small)).answer).toEqual(metadata);
      const mtimeSeconds = decodeFields(idOf(small).base).createdAtSeconds;
      expect((await other.ask(queryFileInfo, small)).answer).toMatchObject({
        size: 12,
        mtimeSeconds,
      });
      expect((await other.ask(deleteFile, small)).status).toBe(0);
      expect((await other.ask(downloadFile, { ...small, offset: 0, length: 0 })).status).toBe(2);
      expect((await other.ask(getMetadata, small)).status).toBe(2);
      expect(again.errors).toEqual([]);
    },
  );

  it('an appender grows out of its row and comes back when it is cut; its id stays', async () => {
    const folder = temporaryFolder();
    const storage = await storageOf({ folder, tiers: TIERS });
    const client = await storage.connect();
    const file = await client.appender(Buffer.alloc(5000, 1));
    const metadata = Buffer.from('a\x02b');
    await client.must(setMetadata, { ...file, mode: 'overwrite', metadata });
    const described = async () => (await client.ask(getMetadata, file)).answer;
    expect(existsSync(pathOf(folder, file))).toBe(false);
    expect(await client.append(file, Buffer.alloc(5000, 2))).toBe(0);
    expect(existsSync(pathOf(folder, file))).toBe(true);
    const grown = Buffer.concat([Buffer.alloc(5000, 1), Buffer.alloc(5000, 2)]);
    expect(await client.read(file)).toEqual(grown);
    expect(await described()).toEqual(metadata);
    expect((await client.ask(truncateFile, { ...file, size: 100 })).status).toBe(0);
    await until(() => !existsSync(pathOf(folder, file)));
    expect(await client.read(file)).toEqual(Buffer.alloc(100, 1));
    expect(await described()).toEqual(metadata);
    const renamed = await client.ask(regenerateAppender, file);
    expect(await client.read(renamed.answer!)).toEqual(Buffer.alloc(100, 1));
    expect(storage.errors).toEqual([]);
  });

  it('takes files up to the size given as rows, also while it is busy', async () => {
    // So little a disk is overloaded by one upload, and never idle enough for larger rows.
    const busy = { bytesPerSecond: 1000, parameters: { ...TIERS.parameters, lowLoadMark: 0 } };
    const leaving = { ...TIERS, ...busy, moveTo: 'group9' };
    const storage = await storageOf({ tiers: leaving, trackers: ['127.0.0.1:9'] });
    const client = await storage.connect();
    const isFile = async (bytes: number) =>
      existsSync(pathOf(storage.folder, await client.upload(Buffer.alloc(bytes))));
    expect(await isFile(8192)).toBe(false);
    await until(async () => {
      await client.upload(Buffer.alloc(100));
      return (await status(client)).thresholdBytes < 8000;
    });
    expect(await isFile(8192)).toBe(false);
    expect(await isFile(8193)).toBe(true);
  });

  it('lets a file that has moved grow further in its row, and leaves it there when it is read', async () => {
    const parameters = { maximumThresholdBytes: 16_384, lowLoadMark: 0, moveWeight: 1 };
    const storage = await storageOf({ tiers: { ...TIERS, parameters }, cacheBytes: 0 });
    const client = await storage.connect();
    const isFile = (file: FileName) => existsSync(pathOf(storage.folder, file));
    /** It leaves its row and comes back: two moves, and thrice the size is allowed. */
    const moved = async () => {
      const file = await client.appender(Buffer.alloc(5000));
      await client.append(file, Buffer.alloc(5000));
      expect(isFile(file)).toBe(true);
      await client.must(truncateFile, { name: file.name, size: 6000 });
      await until(() => !isFile(file));
      return file;
    };
    const file = await moved();
    expect(await client.append(file, Buffer.alloc(6000))).toBe(0);
    const { intervals } = await status(client);
    await until(async () => {
      expect(await client.has(file, Buffer.alloc(12_000))).toBe(true);
      return (await status(client)).intervals > intervals + 2;
    });
    // Moves are made one after the other: its own would have been made before this one's.
    await moved();
    expect(isFile(file)).toBe(false);
  });

  it('serves its rows when the tiers are switched off, and a store of before when they are on', async () => {
    const folder = temporaryFolder();
    const before = await storageOf({ folder });
    const old = await (await before.connect()).upload(Buffer.from('as a file'));
    await before.close();
    const on = await storageOf({ folder, tiers: TIERS });
    const client = await on.connect();
    expect(await client.read(old)).toEqual(Buffer.from('as a file'));
    const row = await client.upload(Buffer.from('as a row'));
    await on.close();
    const off = await storageOf({ folder });
    const last = await off.connect();
    expect(await last.read(row)).toEqual(Buffer.from('as a row'));
    const plain = await last.upload(Buffer.from('as a file again'));
    expect(existsSync(pathOf(folder, plain))).toBe(true);
  });

  it('pauses, tells what it would do, and goes on', async () => {
    const storage = await storageOf({ tiers: TIERS });
    const client = await storage.connect();
    await client.upload(Buffer.from('x'));
    await client.ask(migrationControl, 'pause');
    expect(await status(client)).toMatchObject({ isPaused: true, isDryRun: false });
    await client.ask(migrationControl, 'dry-run');
    await client.ask(migrationControl, 'resume');
    await until(async () => (await status(client)).intervals > 1);
    const now = await status(client);
    expect(now).toMatchObject({ isPaused: false, isDryRun: false, rows: { files: 1, bytes: 1 } });
  });

  it('has its records on another disk where a link leads there', async () => {
    const folder = temporaryFolder();
    const target = join(temporaryFolder(), 'rows.sqlite');
    mkdirSync(join(folder, 'data'));
    symlinkSync(target, join(folder, 'data', '.stevedore-files.sqlite'));
    const refused = { code: 'store_path_unusable' };
    await expect(storageOf({ folder, tiers: TIERS })).rejects.toMatchObject(refused);
    writeFileSync(target, '');
    const first = await storageOf({ folder, tiers: TIERS });
    const file = await (await first.connect()).upload(Buffer.from('a row'));
    await first.close();
    expect(existsSync(pathOf(folder, file))).toBe(false);
    const second = await storageOf({ folder, tiers: TIERS });
    expect(await (await second.connect()).read(file)).toEqual(Buffer.from('a row'));
    await second.close();
    rmSync(target);
    await expect(storageOf({ folder })).rejects.toMatchObject(refused);
  });

  it('without the tiers there is nothing to control', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    expect((await client.ask(migrationControl, 'status')).status).not.toBe(0);
  });
});
