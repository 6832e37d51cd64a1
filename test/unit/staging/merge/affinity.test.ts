import { randomBytes } from 'node:crypto';
import type { FileRow, Staging } from '@stevedore/staging';
import { expect, test } from 'vitest';
import { openStaging, stageFile } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** Files of an affinity group are in one trunk, side by side, however they came. */

const ALBUMS = 20;
const PHOTOS = 24;
const PHOTO_BYTES = 6_000;
const OPTIONS = { trunkSize: 2 ** 20, retain: 0, compactionBytesPerSecond: 2 ** 34 };

/** Photos of all albums, uploaded in turns. */
async function uploadInTurns(staging: Staging, photos = PHOTOS): Promise<Map<string, Buffer[]>> {
  const albums = new Map<string, Buffer[]>();
  for (let photo = 0; photo < photos; photo += 1) {
    const turn = Array.from({ length: ALBUMS }, async (_, album) => {
      const group = `album-${album}`;
      const bytes = randomBytes(PHOTO_BYTES + ((photo * 977 + album * 131) % 3_000));
      const key = await stageFile(staging, bytes, { group });
      albums.set(group, [...(albums.get(group) ?? []), key]);
    });
    await Promise.all(turn);
  }
  return albums;
}

/** How many albums are in one trunk each, side by side and in the order of their upload. */
function whole(staging: Staging, albums: ReadonlyMap<string, readonly Buffer[]>): number {
  let count = 0;
  for (const [group, keys] of albums) {
    const rows = keys.map((key) => staging.fileMap.find(key)).filter((row) => row !== undefined);
    const trunk = rows[0]?.trunk?.id;
    const offsets = rows.map((row) => row.trunk?.offset ?? -1);
    const isInOrder = offsets.every((at, index) => index === 0 || at > offsets[index - 1]!);
    const isOne = trunk !== undefined && rows.every((row) => row.trunk?.id === trunk);
    if (isOne && isInOrder && isAlone(staging, group, rows)) count += 1;
  }
  return count;
}

function isAlone(staging: Staging, group: string, rows: readonly FileRow[]): boolean {
  const { id, offset } = rows[0]!.trunk!;
  const between = staging.fileMap.aliveIn(id, offset - 1, rows.length);
  return between.every((row) => row.group === group);
}

test('20 albums uploaded in turns are each in one trunk, although several trunks fill meanwhile', async () => {
  const { staging, store } = await openStaging(temporaryFolder(), OPTIONS);
  const albums = await uploadInTurns(staging);
  await staging.merging.flush();
  expect(store.files.size).toBeGreaterThan(2);
  expect(whole(staging, albums)).toBe(ALBUMS);
});

test('they stay together when trunks are compacted', async () => {
  const { staging } = await openStaging(temporaryFolder(), OPTIONS);
  const albums = await uploadInTurns(staging);
  await staging.merging.flush();
  const trunksOf = () => [...albums.values()].map(([key]) => staging.fileMap.find(key!)!.trunk!.id);
  const before = trunksOf();
  for (const keys of albums.values()) {
    for (const key of keys.splice(2, PHOTOS - 10)) await staging.deletions.delete(key);
  }
  await staging.compact();
  await staging.merging.flush();
  const after = trunksOf();
  expect(after).not.toEqual(before);
  expect(whole(staging, albums)).toBe(ALBUMS);
});

test('albums that came over many thin trunks are whole once these are joined', async () => {
  const { staging } = await openStaging(temporaryFolder(), {
    ...OPTIONS,
    trunkSize: 4 * OPTIONS.trunkSize,
    idMaxAge: 86_400_000,
  });
  const albums = new Map<string, Buffer[]>();
  for (let minute = 0; minute < 6; minute += 1) {
    for (const [group, keys] of await uploadInTurns(staging, 4)) {
      albums.set(group, [...(albums.get(group) ?? []), ...keys]);
    }
    await staging.merging.flush();
  }
  expect(whole(staging, albums)).toBe(0);
  // What fills a trunk comes at last.
  for (let filler = 0; filler < 100; filler += 1) await stageFile(staging, randomBytes(15_000));
  await staging.merging.flush();
  await staging.compact();
  await staging.merging.flush();
  expect(whole(staging, albums)).toBe(ALBUMS);
});
