import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { ANY_STORE_PATH, decodeFields, downloadFile } from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { filesIn, idOf, pathOf, storageOf } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

describe('a storage', () => {
  it('keeps a file of many buffers and gives back any part of it', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const content = Buffer.from(Uint8Array.from({ length: 3_000_001 }, (_, index) => index * 131));
    const file = await client.upload(content, 'bin');
    expect(decodeFields(idOf(file).base).crc32).toBe(crc32(content));
    for (const [offset, length] of [
      [0, 0],
      [2_999_999, 0],
      [9_999, 20_002],
      [1, 3_000_000],
    ] as const) {
      const { answer } = await client.ask(downloadFile, { ...file, offset, length });
      const end = length === 0 ? content.length : offset + length;
      expect(answer!.equals(content.subarray(offset, end))).toBe(true);
    }
  });

  it('moves on to the next directories and goes on there after a restart', async () => {
    const folder = temporaryFolder();
    const options = { folder, subdirectoriesPerPath: 2 };
    const directories: string[] = [];
    for (let run = 0; run < 2; run++) {
      const storage = await storageOf(options);
      const client = await storage.connect();
      for (let index = 0; index < 250; index++) {
        directories.push((await client.upload(Buffer.from(`${index}`))).name.slice(4, 9));
      }
      await storage.close();
    }
    const inTurn = ['00/00', '00/01', '01/00', '01/01', '00/00'];
    expect(directories).toEqual(inTurn.flatMap((each) => Array<string>(100).fill(each)));
  });

  it('uses every store path in turns when asked to choose', async () => {
    const folders = [temporaryFolder(), temporaryFolder()];
    const storage = await storageOf({ storePaths: folders });
    const client = await storage.connect();
    const paths: string[] = [];
    for (let index = 0; index < 4; index++) {
      const file = await client.upload(Buffer.from(`${index}`), 'txt', ANY_STORE_PATH);
      paths.push(file.name.slice(0, 3));
      expect(existsSync(pathOf(folders[index % 2]!, file))).toBe(true);
    }
    expect(paths).toEqual(['M00', 'M01', 'M00', 'M01']);
  });

  it.each(['sync', 'os'] as const)(
    'draws new random bits when a file of the name is there, with durability %s',
    async (durability) => {
      // Every draw is 0 until the test says otherwise, so that two equal files clash.
      let bits = 0;
      const environment = {
        now: () => 1_800_000_000_000,
        uptimeMs: () => 0,
        random: (limit: number) => (limit === 2 ** 23 ? bits++ >> 1 : 0),
      };
      const storage = await storageOf({ environment, durability });
      const client = await storage.connect();
      const names = new Set<string>();
      for (let index = 0; index < 4; index++) {
        names.add((await client.upload(Buffer.from('same'))).name);
      }
      expect(names.size).toBe(4);
      expect((await filesIn(storage.folder)).length).toBe(4);
    },
  );

  it('rejects options and directories it cannot work with', async () => {
    const folder = temporaryFolder();
    const file = join(folder, 'file');
    await writeFile(file, '');
    await expect(storageOf({ storePaths: [join(file, 'below')] })).rejects.toMatchObject({
      code: 'ENOTDIR',
    });
    await expect(storageOf({ storePaths: [] })).rejects.toMatchObject({ code: 'invalid_option' });
    await expect(storageOf({ group: 'not a group' })).rejects.toMatchObject({
      code: 'invalid_option',
    });
    const taken = await storageOf();
    await expect(storageOf({ port: taken.port })).rejects.toMatchObject({
      code: 'EADDRINUSE',
      message: expect.stringContaining(String(taken.port)),
    });
  });
});
