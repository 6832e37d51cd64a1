import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Random } from '../../support/random.js';
import { temporaryFolder } from '../../support/temporary.js';
import {
  change,
  contentOf,
  killed,
  NAME,
  openIn,
  store,
  THRESHOLD,
  tierOf,
} from '../../support/tiering/harness.js';
import { watchedDisk } from '../../support/watched-disk.js';

const onDisk = (folder: string, name = NAME) => existsSync(join(folder, 'data', name));
const bytesOf = (size: number, fill = 7) => Buffer.alloc(size, fill);

describe('tiered files', () => {
  it('syncs the directory of a large file after it has its name, whoever syncs it meanwhile', async () => {
    const folder = temporaryFolder();
    const [held, other] = ['held', 'other'].map((name) => join(folder, 'data', '00/00', name));
    const calls: string[] = [];
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const disk = watchedDisk(async ({ operation, path }, run) => {
      if (operation === 'rename' && path === held) await gate;
      const result = await run();
      if (operation === 'rename' || operation === 'syncDirectory') calls.push(path);
      return result;
    });
    const opened = await openIn(folder, { disk });
    const large = bytesOf(THRESHOLD + 1);
    const storing = store(opened, folder, '00/00/held', large);
    await store(opened, folder, '00/00/other', large);
    release();
    await storing;
    const directory = join(folder, 'data/00/00');
    expect(calls.slice(-4)).toEqual([other, directory, held, directory]);
    await opened.close();
  });

  it('lists rows and files together, metadata too', async () => {
    const folder = temporaryFolder();
    const opened = await openIn(folder);
    await store(opened, folder, NAME, bytesOf(5));
    await store(opened, folder, `${NAME}-m`, Buffer.from('a\x02b'));
    await store(opened, folder, '00/00/large', bytesOf(THRESHOLD + 1));
    await store(opened, folder, '00/01/other', bytesOf(5));
    const names = await opened.files.list(join(folder, 'data', '00', '00'));
    expect(names.sort()).toEqual(['file.txt', 'file.txt-m', 'large']);
    expect(onDisk(folder, `${NAME}-m`)).toBe(false);
    expect(await contentOf(opened, folder, `${NAME}-m`)).toEqual(Buffer.from('a\x02b'));
    await opened.files.remove(join(folder, 'data', NAME));
    expect(await contentOf(opened, folder, `${NAME}-m`)).toBeUndefined();
    expect(await contentOf(opened, folder, NAME)).toBeUndefined();
    await opened.close();
  });

  it('a rename takes the row, its metadata and its file along', async () => {
    const folder = temporaryFolder();
    const opened = await openIn(folder);
    const to = '00/00/renamed.txt';
    const rename = async () => {
      await opened.files.move(join(folder, 'data', NAME), join(folder, 'data', to));
      await opened.files.sync(join(folder, 'data', to));
    };
    for (const moved of [false, true]) {
      await store(opened, folder, NAME, bytesOf(50, 3));
      await store(opened, folder, `${NAME}-m`, Buffer.from('a\x02b'));
      if (moved) expect(await tierOf(opened).moves.toFile(NAME)).toBe('moved');
      await rename();
      expect(await contentOf(opened, folder, NAME)).toBeUndefined();
      expect(await contentOf(opened, folder, to)).toEqual(bytesOf(50, 3));
      expect(await contentOf(opened, folder, `${to}-m`)).toEqual(Buffer.from('a\x02b'));
      await opened.files.remove(join(folder, 'data', to));
    }
    await opened.close();
  });

  it('a small file takes the place of a row, although the tier takes no more rows', async () => {
    const folder = temporaryFolder();
    const opened = await openIn(folder, { options: { roomBytes: 50 } });
    mkdirSync(join(folder, 'data', '00', '00'), { recursive: true });
    await store(opened, folder, NAME, bytesOf(50, 3));
    await store(opened, folder, NAME, bytesOf(40, 4));
    expect(await contentOf(opened, folder, NAME)).toEqual(bytesOf(40, 4));
    expect(onDisk(folder)).toBe(true);
    await opened.close();
  });

  it('a damaged row is an error, never wrong bytes', async () => {
    const folder = temporaryFolder();
    const opened = await openIn(folder);
    await store(opened, folder, NAME, bytesOf(50, 3));
    const { records } = tierOf(opened);
    records.put({ ...records.find(NAME)!, crc32: 1 }, bytesOf(50, 3));
    await expect(contentOf(opened, folder, NAME)).rejects.toMatchObject({ code: 'EIO' });
    await opened.close();
  });

  it('does what a plain disk does, over thousands of random operations and restarts', async () => {
    let folder = temporaryFolder();
    const random = new Random(11);
    let opened = await openIn(folder);
    const model = new Map<string, Buffer>();
    const names = Array.from({ length: 12 }, (_, index) => `00/0${index % 2}/f${index}`);
    const anyBytes = () => Buffer.alloc(random.below(2.5 * THRESHOLD), random.below(256));
    for (let turn = 0; turn < 600; turn += 1) {
      const name = random.pick(names);
      const path = join(folder, 'data', name);
      const known = model.get(name);
      const kind = random.below(10);
      if (!known) {
        const bytes = anyBytes();
        await store(opened, folder, name, bytes);
        model.set(name, bytes);
      } else if (kind === 0) {
        await opened.files.remove(path);
        await opened.files.sync(path);
        model.delete(name);
      } else if (kind <= 2) {
        const at = random.below(known.length + 1);
        const bytes = anyBytes().subarray(0, 2000);
        await change(opened, folder, name, { at, bytes });
        const grown = Buffer.alloc(Math.max(known.length, at + bytes.length));
        known.copy(grown);
        bytes.copy(grown, at);
        model.set(name, grown);
      } else if (kind === 3) {
        const size = random.below(2 * THRESHOLD);
        await change(opened, folder, name, { size });
        const cut = Buffer.alloc(size);
        known.copy(cut);
        model.set(name, cut);
      } else if (kind === 4) {
        const bytes = anyBytes();
        await store(opened, folder, name, bytes);
        model.set(name, bytes);
      } else if (kind <= 6) {
        await tierOf(opened).moves.toFile(name);
      } else if (kind <= 8) {
        await tierOf(opened).moves.home(name, THRESHOLD);
      } else if (random.below(20) === 0) {
        const isKilled = random.below(2) === 0;
        const left = isKilled ? killed(folder) : folder;
        await opened.close();
        folder = left;
        opened = await openIn(folder);
      }
      const now = await contentOf(opened, folder, name);
      expect(now?.equals(model.get(name) ?? Buffer.alloc(0))).toBe(model.has(name) || undefined);
    }
    // Nothing is kept twice, and nothing is left over.
    const rows = names.filter((name) => tierOf(opened).records.find(name)?.place === 0);
    for (const name of rows) expect(onDisk(folder, name)).toBe(false);
    expect(readdirSync(join(folder, 'data', '.tmp'))).toEqual([]);
    await opened.close();
  });
});
