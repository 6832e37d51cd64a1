import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { localDisk } from '@stevedore/disk';
import { describe, expect, it } from 'vitest';
import {
  encodeRecord,
  type JournalChange,
} from '../../../packages/storage/dist/files/change-journal-format.js';
import { replayChanges } from '../../../packages/storage/dist/files/change-recovery.js';
import { filesOnDisk } from '../../../packages/storage/dist/files/files-on-disk.js';
import { temporaryFolder } from '../../support/temporary.js';
import { watchedDisk } from '../../support/watched-disk.js';

const PATH = '00/00/file';
const BEFORE = 'what was there';
const ADDED = 'what was added to it, in one append';
const bytes = ADDED.length;
const SUM = crc32(ADDED);
const APPEND = { what: 'append', path: PATH, offset: BEFORE.length, bytes, crc32: SUM } as const;
const KEPT = [{ change: APPEND, bytes }];

/** What becomes of the file, and which changes count as made. */
async function replay(content: string, changes: readonly JournalChange[], disk = localDisk) {
  const directory = temporaryFolder();
  const path = join(directory, PATH);
  mkdirSync(join(directory, '00/00'), { recursive: true });
  writeFileSync(path, content);
  const records = changes.flatMap((change, index) =>
    encodeRecord(index + 1, change, change.what === 'write' ? [Buffer.from('WRITTEN')] : []),
  );
  const backend = filesOnDisk(disk, () => '');
  const replayed = await replayChanges(disk, backend, directory, Buffer.concat(records));
  return { content: readFileSync(path, 'utf8'), replayed };
}

describe('an append that a crash interrupted', () => {
  it('stays if it is there as a whole, and its bytes are written and synced again', async () => {
    const made: string[] = [];
    const disk = watchedDisk(({ operation }, run) => {
      made.push(operation);
      return run();
    });
    const { content, replayed } = await replay(BEFORE + ADDED, [APPEND], disk);
    expect(content).toBe(BEFORE + ADDED);
    expect(replayed).toEqual(KEPT);
    expect(made.indexOf('writeAt')).toBeGreaterThan(-1);
    expect(made.indexOf('sync')).toBeGreaterThan(made.indexOf('writeAt'));
  });

  it.each([
    ['in part', ADDED.slice(0, 10)],
    ['with other bytes in its middle', ADDED.replace('one', '\0\0\0')],
    ['with more behind it', `${ADDED}.`],
  ])('is cut off if it is there %s', async (_, there) => {
    expect(await replay(BEFORE + there, [APPEND])).toEqual({ content: BEFORE, replayed: [] });
  });

  it('changes nothing where none of it is there', async () => {
    for (const content of [BEFORE, BEFORE.slice(1)]) {
      expect(await replay(content, [APPEND])).toEqual({ content, replayed: [] });
    }
  });

  it('counts only as the last change of its file, and then alone', async () => {
    const write = { what: 'write', path: PATH, offset: 0, size: 20 } as const;
    expect(await replay(BEFORE + ADDED, [write, APPEND])).toEqual({
      content: BEFORE + ADDED,
      replayed: KEPT,
    });
    const end = BEFORE.length + bytes;
    const next = { ...APPEND, offset: end, bytes: 1, crc32: crc32('!') };
    expect(await replay(`${BEFORE}${ADDED.toUpperCase()}!`, [APPEND, next])).toEqual({
      content: `${BEFORE}${ADDED.toUpperCase()}!`,
      replayed: [{ change: next, bytes: 1 }],
    });
    const { content } = await replay(BEFORE + ADDED, [APPEND, { ...write, size: end }]);
    expect(content).toBe(`WRITTEN${(BEFORE + ADDED).slice('WRITTEN'.length)}`);
  });
});
