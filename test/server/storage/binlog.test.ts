import { appendFile as appendToFile, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  decodeListingLine,
  deleteFile,
  encodeRequest,
  fetchOnePathBinlog,
  LISTING_END_BYTES,
  type ListingLine,
  regenerateAppender,
  setMetadata,
  truncateFile,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { type StorageOfTest, storageOf } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

/** The log of changes, and the list of files that is made of it. */

async function logOf(folder: string): Promise<string[]> {
  const text = await readFile(join(folder, 'data', 'sync', 'binlog.000'), 'latin1');
  return text.split('\n').slice(0, -1);
}

async function listing(storage: StorageOfTest, storePathIndex = 0): Promise<ListingLine[]> {
  const client = await storage.connect();
  const reply = await client.exchange(
    encodeRequest(fetchOnePathBinlog, { group: 'group1', storePathIndex }),
  );
  expect(reply).toMatchObject({ status: 0, isOpen: true });
  const text = reply.body.subarray(0, -LISTING_END_BYTES);
  expect(Number(reply.body.subarray(-LISTING_END_BYTES).readBigInt64BE())).toBe(text.length);
  return text.toString('latin1').split('\n').filter(Boolean).map(decodeListingLine);
}

describe('the log of changes', () => {
  it('has every change in the layout of the C storage, and lists what is there', async () => {
    const environment = {
      now: () => 1_795_235_075_000,
      uptimeMs: () => 0,
      random: (limit: number) => limit % 7,
    };
    const storage = await storageOf({ environment });
    const client = await storage.connect();
    const kept = await client.upload(Buffer.from('kept'));
    const gone = await client.upload(Buffer.from('gone'));
    const metadata = Buffer.from('a\x02b');
    for (const file of [kept, gone]) {
      await client.ask(setMetadata, { ...file, metadata, mode: 'overwrite' });
    }
    await client.ask(setMetadata, { ...kept, metadata, mode: 'merge' });
    await client.ask(deleteFile, gone);
    const grown = await client.appender('first');
    await client.ask(truncateFile, { name: grown.name, size: 9 });
    const { answer: normal } = await client.ask(regenerateAppender, { name: grown.name });
    // What changes nothing is not noted.
    await client.ask(deleteFile, gone);
    await client.ask(setMetadata, { ...kept, metadata: Buffer.alloc(0), mode: 'merge' });
    const expected = [
      `C ${kept.name}`,
      `C ${gone.name}`,
      `C ${kept.name}-m`,
      `C ${gone.name}-m`,
      `U ${kept.name}-m`,
      `D ${gone.name}`,
      `D ${gone.name}-m`,
      `C ${grown.name}`,
      `T ${grown.name} 5 9`,
      `R ${normal!.name} ${grown.name}`,
    ];
    expect(await logOf(storage.folder)).toEqual(expected.map((line) => `1795235075 ${line}`));
    const files = [{ name: kept.name }, { name: `${kept.name}-m` }, { name: normal!.name }].map(
      (file) => ({ seconds: 1_795_235_075, isSource: true, ...file }),
    );
    expect(await listing(storage)).toEqual(files);

    // The same after a start that finds half a line, and without a log.
    await storage.close();
    const log = join(storage.folder, 'data', 'sync', 'binlog.000');
    await appendToFile(log, '1795235075 C M00/00/00/fwAR');
    const again = await storageOf({ folder: storage.folder, environment });
    expect(await listing(again)).toEqual(files);
    expect(await logOf(storage.folder)).toHaveLength(expected.length);
    await again.close();
    await rm(join(storage.folder, 'data', 'sync'), { recursive: true });
    const anew = await storageOf({ folder: storage.folder, environment });
    const byName = (list: ListingLine[]) => list.map(({ name }) => name).sort();
    expect(byName(await listing(anew))).toEqual(byName(files));
  });

  it('lists thousands of files, of the store path that is asked for only', async () => {
    const folders = [temporaryFolder(), temporaryFolder()];
    const first = await storageOf({ storePaths: folders });
    const client = await first.connect();
    const file = await client.upload(Buffer.from('x'), 'txt', 1);
    await first.close();
    const log = join(folders[0]!, 'data', 'sync', 'binlog.000');
    const line = `1795235075 c ${file.name}\n`;
    await writeFile(log, `${line.repeat(3000)}damaged\n${line.repeat(2)}`);
    const storage = await storageOf({ storePaths: folders });
    expect(await listing(storage, 0)).toEqual([]);
    const lines = await listing(storage, 1);
    expect(lines).toHaveLength(3002);
    expect(new Set(lines.map(({ name, isSource }) => `${name} ${isSource}`)).size).toBe(1);
    const refused = await (await storage.connect()).exchange(
      encodeRequest(fetchOnePathBinlog, { group: 'group1', storePathIndex: 2 }),
    );
    expect(refused.status).toBe(22);
  });
});
