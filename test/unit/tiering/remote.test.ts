import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { Status } from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { Upkeep } from '../../../packages/tiering/dist/migration/upkeep.js';
import { temporaryFolder } from '../../support/temporary.js';
import {
  change,
  contentOf,
  killedAt,
  NAME,
  type Opened,
  OTHER_GROUP,
  OtherGroup,
  openIn,
  Place,
  store,
  THRESHOLD,
  tierOf,
} from '../../support/tiering/harness.js';

const CONTENT = Buffer.alloc(3000, 5);
const METADATA = Buffer.from('a\x02b');
const HOUR_MS = 3_600_000;

async function withFile(remote: OtherGroup, folder = temporaryFolder()) {
  const opened = await openIn(folder, { remote });
  await store(opened, folder, NAME, CONTENT);
  await store(opened, folder, `${NAME}-m`, METADATA);
  const { records, moves } = tierOf(opened);
  return { folder, opened, records, moves };
}

/** A turn of the upkeep, an hour later. */
function tidy({ tiers }: Opened, remote: OtherGroup, graceMs = 0): Promise<void> {
  const onError = (error: unknown) => {
    throw error;
  };
  const now = () => Date.now() + HOUR_MS;
  return new Upkeep({ tiers: tiers.all, remote, graceMs, now, onError }).work();
}

describe('a file in another group', () => {
  it('has left its record, with its metadata, and is read from there over restarts', async () => {
    const remote = new OtherGroup();
    const { folder, opened, records, moves } = await withFile(remote);
    expect(await moves.toGroup(NAME, OTHER_GROUP)).toBe('moved');
    const { remote: id, ...record } = records.find(NAME)!;
    expect(record).toMatchObject({ place: Place.remote, size: 3000, moves: 1 });
    expect(id).toMatch(/^group2\/M00\/00\/00\/[\w-]{27}\.m[0-9a-z]{5}$/);
    expect(records.bytes(NAME)).toBeUndefined();
    expect(records.openCopies()).toEqual([]);
    expect(records.counts(Place.remote)).toEqual({ files: 1, bytes: 3000 });
    expect(records.counts(Place.row)).toEqual({ files: 0, bytes: 0 });
    await opened.close();
    const again = await openIn(folder, { remote });
    expect(await contentOf(again, folder, NAME)).toEqual(CONTENT);
    expect(await contentOf(again, folder, `${NAME}-m`)).toEqual(METADATA);
    // It goes nowhere else from here.
    expect(await tierOf(again).moves.toGroup(NAME, 'group3')).toBe('refused');
    expect(await tierOf(again).moves.toFile(NAME)).toBe('refused');
    expect(await tierOf(again).moves.home(NAME, THRESHOLD)).toBe('moved');
    expect(await contentOf(again, folder, NAME)).toEqual(CONTENT);
    await tidy(again, remote);
    expect(remote.files.size).toBe(0);
    await again.close();
  });

  it('comes home with a change, into a row or a file, and the copy is deleted', async () => {
    for (const [bytes, place] of [
      [Buffer.from('more'), Place.row],
      [Buffer.alloc(2 * THRESHOLD, 6), Place.file],
    ] as const) {
      const remote = new OtherGroup();
      const { folder, opened, records, moves } = await withFile(remote);
      await moves.toGroup(NAME, OTHER_GROUP);
      await change(opened, folder, NAME, { at: 3000, bytes });
      expect(records.find(NAME)).toMatchObject({ place, moves: 2, remote: undefined });
      expect(await contentOf(opened, folder, NAME)).toEqual(Buffer.concat([CONTENT, bytes]));
      expect(await contentOf(opened, folder, `${NAME}-m`)).toEqual(METADATA);
      await tidy(opened, remote);
      expect(remote.files.size).toBe(0);
      await opened.close();
    }
  });

  it('that is too large for a row comes home as a file, before it is changed in place', async () => {
    const remote = new OtherGroup();
    const { folder, opened, records, moves } = await withFile(remote);
    const large = Buffer.alloc(3 * THRESHOLD, 8);
    await change(opened, folder, NAME, { at: 0, bytes: large });
    expect(records.find(NAME)).toMatchObject({ place: Place.file });
    expect(await moves.toGroup(NAME, OTHER_GROUP)).toBe('moved');
    expect(existsSync(join(folder, 'data', NAME))).toBe(false);
    expect(await contentOf(opened, folder, NAME)).toEqual(large);
    await change(opened, folder, NAME, { size: 5 });
    expect(await contentOf(opened, folder, NAME)).toEqual(large.subarray(0, 5));
    expect(records.find(NAME)).toMatchObject({ place: Place.file });
    await opened.close();
  });

  it('keeps its name and metadata while the group is away; a change waits for it', async () => {
    const remote = new OtherGroup();
    const { folder, opened, moves } = await withFile(remote);
    await moves.toGroup(NAME, OTHER_GROUP);
    remote.isAway = true;
    await store(opened, folder, `${NAME}-m`, Buffer.from('c\x02d'));
    expect(await contentOf(opened, folder, `${NAME}-m`)).toEqual(Buffer.from('c\x02d'));
    expect(await opened.files.exists(join(folder, 'data', NAME))).toBe(true);
    const busy = { status: Status.tryAgain };
    await expect(contentOf(opened, folder, NAME)).rejects.toMatchObject(busy);
    const write = change(opened, folder, NAME, { at: 0, bytes: Buffer.from('x') });
    await expect(write).rejects.toMatchObject(busy);
    expect(await moves.home(NAME, THRESHOLD)).toBe('refused');
    remote.isAway = false;
    expect(await contentOf(opened, folder, NAME)).toEqual(CONTENT);
    await opened.close();
  });

  it('whose copy is lost or altered is an error, never "no such file" nor wrong bytes', async () => {
    const remote = new OtherGroup();
    const { folder, opened, records, moves } = await withFile(remote);
    await moves.toGroup(NAME, OTHER_GROUP);
    const id = records.find(NAME)!.remote!;
    remote.files.set(id, Buffer.alloc(3000, 9));
    await expect(contentOf(opened, folder, NAME)).rejects.toMatchObject({ code: 'EIO' });
    remote.files.delete(id);
    await expect(contentOf(opened, folder, NAME)).rejects.toMatchObject({ code: 'EIO' });
    await opened.close();
  });

  it('is renamed and deleted without its group', async () => {
    const remote = new OtherGroup();
    const { folder, opened, records, moves } = await withFile(remote);
    await moves.toGroup(NAME, OTHER_GROUP);
    remote.isAway = true;
    const to = '00/00/renamed.txt';
    await opened.files.move(join(folder, 'data', NAME), join(folder, 'data', to));
    expect(records.find(to)).toMatchObject({ place: Place.remote });
    await opened.files.remove(join(folder, 'data', to));
    await records.commit();
    expect(records.find(to)).toBeUndefined();
    await tidy(opened, remote);
    expect(records.unwantedCopies).toBe(1);
    remote.isAway = false;
    await tidy(opened, remote, 2 * HOUR_MS);
    expect(records.unwantedCopies).toBe(1);
    await tidy(opened, remote);
    expect(records.unwantedCopies).toBe(0);
    expect(remote.files.size).toBe(0);
    await opened.close();
  });
});

describe('a move to another group', () => {
  it('is refused where the group is away, and fails where it alters bytes; nothing is left', async () => {
    const remote = new OtherGroup();
    const { folder, opened, records, moves } = await withFile(remote);
    remote.isAway = true;
    expect(await moves.toGroup(NAME, OTHER_GROUP)).toBe('refused');
    expect(records.openCopies()).toEqual([]);
    remote.isAway = false;
    remote.alters = true;
    await expect(moves.toGroup(NAME, OTHER_GROUP)).rejects.toThrow('does not hold');
    expect(records.openCopies()).toEqual([]);
    expect(records.find(NAME)).toMatchObject({ place: Place.row, moves: 0 });
    expect(await contentOf(opened, folder, NAME)).toEqual(CONTENT);
    await tidy(opened, remote);
    expect(remote.files.size).toBe(0);
    await opened.close();
  });

  it('is not made of an empty file, which stock storages do not give back, nor of what moved here', async () => {
    const remote = new OtherGroup();
    const { folder, opened, moves } = await withFile(remote);
    await store(opened, folder, '00/00/empty', Buffer.alloc(0));
    expect(await moves.toGroup('00/00/empty', OTHER_GROUP)).toBe('refused');
    await store(opened, folder, '00/00/copy.mabcde', CONTENT);
    expect(await moves.toGroup('00/00/copy.mabcde', OTHER_GROUP)).toBe('refused');
    await opened.close();
  });

  it('that was killed, or whose answer was lost, leaves an orphan that is found, and no other file', async () => {
    let orphans = 0;
    for (let at = 1; ; at += 1) {
      const remote = new OtherGroup();
      const first = temporaryFolder();
      let kept = '';
      const { opened, folder, wasKilled } = await killedAt(
        first,
        at,
        remote,
        async (each) => {
          // Another file of the same content has moved before.
          await store(each, first, '00/00/twin', CONTENT);
          await store(each, first, NAME, CONTENT);
          await tierOf(each).moves.toGroup('00/00/twin', OTHER_GROUP);
          kept = tierOf(each).records.find('00/00/twin')!.remote!;
        },
        (each) => tierOf(each).moves.toGroup(NAME, OTHER_GROUP),
      );
      const { records } = tierOf(opened);
      remote.files.set('group2/M00/00/00/of-somebody-else.txt', CONTENT);
      const isAway = records.find(NAME)!.place === Place.remote;
      if (remote.files.size > (isAway ? 3 : 2)) orphans += 1;
      await tidy(opened, remote);
      await tidy(opened, remote);
      expect(remote.files.size).toBe(isAway ? 3 : 2);
      expect(remote.files.has(kept)).toBe(true);
      expect(records.openCopies()).toEqual([]);
      expect(await contentOf(opened, folder, NAME)).toEqual(CONTENT);
      await opened.close();
      if (!wasKilled) break;
    }
    expect(orphans).toBeGreaterThan(0);

    const remote = new OtherGroup();
    const { opened, records, moves } = await withFile(remote);
    remote.losesAnswers = true;
    expect(await moves.toGroup(NAME, OTHER_GROUP)).toBe('refused');
    expect(records.openCopies()).toHaveLength(1);
    // Soon after, the list of a stock storage may lack it.
    const now = () => Date.now();
    const onError = () => {};
    await new Upkeep({ tiers: opened.tiers.all, remote, graceMs: 0, now, onError }).work();
    expect(remote.files.size).toBe(1);
    // It may be the copy of another file of this content that is being made.
    const about = { target: OTHER_GROUP, size: 3000, crc32: crc32(CONTENT) };
    const young = records.beginCopy({ ...about, sinceSeconds: 2 * (Date.now() / 1000) });
    await tidy(opened, remote);
    expect(remote.files.size).toBe(1);
    expect(records.openCopies()).toHaveLength(2);
    records.endCopy(young);
    await tidy(opened, remote);
    await tidy(opened, remote);
    expect(remote.files.size).toBe(0);
    expect(records.openCopies()).toEqual([]);
    await opened.close();
  });
});
