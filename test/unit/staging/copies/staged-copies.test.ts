import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { duplexPair } from 'node:stream';
import type { Staging, StagingOptions } from '@stevedore/staging';
import { expect, test } from 'vitest';
import { CopyConnection } from '../../../../packages/staging/dist/copies/copy-connection.js';
import { encodeFrameHeader, FrameType } from '../../../../packages/staging/dist/copies/frames.js';
import type { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import { PARTNER_ORIGIN, TestPartner } from '../../../support/partner.js';
import { openStaging, spoolFile, stageFile, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** A second copy of what is staged: what the partner has, when it is away, and afterwards. */

const bytesOf = (size: number, seed: number): Buffer => Buffer.alloc(size, `content ${seed} `);

async function pair(
  limitBytes?: number,
  { isRequired, ...options }: Partial<StagingOptions> & { readonly isRequired?: boolean } = {},
  deadlineMs = 2_000,
  store?: MemoryTrunkStore,
) {
  let staging: Staging | undefined;
  const partner = await TestPartner.start(
    temporaryFolder(),
    () => staging?.origin ?? 0,
    limitBytes,
  );
  partner.isAway = true;
  const directory = temporaryFolder();
  const copies = partner.options(deadlineMs, isRequired);
  const opened = await openStaging(directory, { ...options, copies }, store);
  staging = opened.staging;
  partner.isAway = false;
  const { origin } = staging;
  const held = join(partner.folder, String(origin), 'container');
  const own = join(directory, 'container');
  return { ...opened, partner, directory, held, own, origin };
}

const isUp = (staging: Staging) => () => staging.stats().copies?.state === 'up';

/** What is held of each segment is what is in it. */
function expectSame(own: string, held: string): void {
  const segments = (folder: string) => readdirSync(folder).filter((name) => name.endsWith('.seg'));
  expect(segments(held).length).toBeGreaterThan(0);
  for (const name of segments(held)) {
    const copy = readFileSync(join(held, name));
    expect(copy.equals(readFileSync(join(own, name)))).toBe(true);
  }
  expect(segments(held).at(-1)).toBe(segments(own).at(-1));
}

/** Another server takes over what the partner holds. */
async function adopted(partner: TestPartner, origin: number, store = undefined as never) {
  const other = await openStaging(temporaryFolder(), {}, store);
  partner.isAdopted = true;
  const taken = await other.staging.takeOver(await partner.held.adopt(origin));
  return { ...other, taken };
}

const contentOf = async (staging: Staging, key: Buffer): Promise<Buffer | undefined> => {
  const row = staging.fileMap.find(key);
  return row && staging.local.read(row);
};

test('an acknowledged batch is on the disk of the partner, byte for byte', async () => {
  // Nothing is merged, which would add to the container meanwhile.
  const { staging, own, held } = await pair(undefined, { trunkSize: 16 * 2 ** 20 });
  await until(isUp(staging));
  const sizes = [0, 1, 20_000, 5_000_000, 300];
  await Promise.all(sizes.map((size, seed) => stageFile(staging, bytesOf(size, seed))));
  expectSame(own, held);
  expect(staging.stats().copies).toMatchObject({ copiedToFastdfs: 0, refused: 0, lagBytes: 0 });
});

const away = { code: 'partner_away', retryable: true };

test('without the partner, FastDFS has the second copy of an upload when it is acknowledged', async () => {
  const { staging, partner, errors, store } = await pair(undefined, { idMaxAge: 3_600_000 });
  await until(isUp(staging));
  const kept = await stageFile(staging, bytesOf(100, 1));
  await partner.stop();
  await until(() => !isUp(staging)());
  const keys = await Promise.all([2, 3, 4].map((seed) => stageFile(staging, bytesOf(100, seed))));
  for (const key of keys) expect(staging.fileMap.find(key)?.trunk).toBeDefined();
  expect(staging.fileMap.trunksIn('confirmed').every(({ thin }) => thin !== null)).toBe(true);
  expect(store.files.size).toBeGreaterThan(0);
  // A deletion has no place in FastDFS, and the map is away, too.
  partner.isMapAway = true;
  await expect(staging.deletions.delete(kept)).rejects.toMatchObject(away);
  expect(staging.fileMap.find(kept)).toBeDefined();
  expect(staging.stats().copies).toMatchObject({ refused: 1, copiedToFastdfs: 3 });
  expect(staging.copies!.isAccepting).toBe(true);
  // Once at the start, before the partner was there, and once now.
  expect(errors.map(({ message }) => message.includes('wait for FastDFS'))).toEqual([true, true]);
});

test('a deletion without the partner is in the map when it is acknowledged', async () => {
  const { staging, partner, own, held } = await pair();
  await until(isUp(staging));
  const keys = [await stageFile(staging, bytesOf(100, 1)), await stageFile(staging, bytesOf(9, 2))];
  partner.isAway = true;
  partner.cut();
  await until(() => !isUp(staging)());
  expect(await staging.deletions.delete(keys[0]!)).toBe(true);
  expect(partner.deletions).toContainEqual(keys[0]);
  partner.isAway = false;
  await until(isUp(staging));
  expect(await staging.deletions.delete(keys[1]!)).toBe(true);
  expect(partner.deletions).not.toContainEqual(keys[1]);
  expectSame(own, held);
});

test('without the partner and FastDFS, uploads are refused, and nothing is left of them', async () => {
  const { staging, partner, store } = await pair(undefined, {}, 1_000);
  await until(isUp(staging));
  await partner.stop();
  await until(() => !isUp(staging)());
  store.isAway = true;
  const refused = stageFile(staging, bytesOf(100, 1));
  await expect(refused).rejects.toMatchObject({ code: 'storage_unavailable', retryable: true });
  expect(staging.copies!.isAccepting).toBe(false);
  await expect(stageFile(staging, bytesOf(100, 2))).rejects.toMatchObject(away);
  expect(staging.stats()).toMatchObject({ waitingFiles: 0, copies: { refused: 2 } });
  store.isAway = false;
  await until(() => staging.copies!.isAccepting);
  await stageFile(staging, bytesOf(100, 3));
});

test('where one copy is enough, nothing waits for a partner, which gets what it is owed', async () => {
  const { staging, partner, own, held, store, errors } = await pair(undefined, {
    isRequired: false,
    mergeMaxAge: 3_600_000,
  });
  await until(isUp(staging));
  await stageFile(staging, bytesOf(100, 0));
  expect(staging.stats().copies).toMatchObject({ withOneCopy: 0 });
  partner.isAway = true;
  partner.cut();
  await until(() => !isUp(staging)());
  store.isAway = true;
  const alone = await stageFile(staging, bytesOf(100, 1));
  await stageFile(staging, bytesOf(100, 2));
  expect(staging.stats().copies).toMatchObject({ withOneCopy: 2, refused: 0 });
  expect(staging.copies!.isAccepting).toBe(true);
  expect(errors.at(-1)).toMatchObject({
    ...{ code: 'partner_away', retryable: true },
    message: expect.stringContaining('acknowledged with one copy'),
  });
  // The copy at the partner would bring it back.
  partner.isMapAway = true;
  await expect(staging.deletions.delete(alone)).rejects.toMatchObject(away);
  partner.isAway = false;
  await until(isUp(staging));
  expectSame(own, held);
  await stageFile(staging, bytesOf(100, 3));
  expect(staging.stats().copies).toMatchObject({ withOneCopy: 2, refused: 1 });
});

test('where one copy is enough, a large file has two if FastDFS is there', async () => {
  const { staging, store } = await pair(
    undefined,
    { isRequired: false, mergeMaxAge: 3_600_000 },
    1_000,
  );
  const waiting = await stageFile(staging, bytesOf(100, 0));
  const copies = async () => {
    const key = await spoolFile(staging, bytesOf(3_000_000, 1));
    return staging.copies!.secure([{ key, at: 'spool' }]);
  };
  expect(await copies()).toBe(2);
  // It was not merged for the sake of the large one.
  expect(staging.fileMap.find(waiting)?.trunk).toBeUndefined();
  store.isAway = true;
  expect(await copies()).toBe(1);
});

test('a partner that comes back gets what it lacks, and only that', async () => {
  const { staging, partner, own, held } = await pair(undefined, { trunkSize: 16 * 2 ** 20 });
  await until(isUp(staging));
  await stageFile(staging, bytesOf(50_000, 1));
  await partner.restart();
  await stageFile(staging, bytesOf(6_000_000, 2));
  await stageFile(staging, bytesOf(700, 3));
  await until(isUp(staging));
  expectSame(own, held);
  await stageFile(staging, bytesOf(800, 4));
  expectSame(own, held);
  expect(staging.stats().copies?.lagBytes).toBe(0);
});

test('uploads go on while a partner catches up', async () => {
  const { staging, partner, own, held } = await pair(undefined, { trunkSize: 16 * 2 ** 20 });
  partner.isAway = true;
  partner.cut();
  for (let seed = 0; seed < 8; seed++) await stageFile(staging, bytesOf(2_000_000, seed));
  partner.isAway = false;
  let seed = 100;
  while (!isUp(staging)()) await stageFile(staging, bytesOf(30_000, seed++));
  await Promise.all([1, 2, 3].map((each) => stageFile(staging, bytesOf(9_000, each))));
  expectSame(own, held);
});

test('a connection may break at any byte of a batch', async () => {
  const { staging, partner, own, held } = await pair();
  await until(isUp(staging));
  const kept: Buffer[] = [];
  for (const bytes of [1, 23, 24, 100, 4_000]) {
    const { connections } = partner;
    partner.breaksAfterBytes = bytes + 72;
    partner.cut();
    await until(() => partner.connections > connections);
    partner.breaksAfterBytes = Number.POSITIVE_INFINITY;
    kept.push(await stageFile(staging, bytesOf(3_000, bytes)));
  }
  await until(isUp(staging));
  kept.push(await stageFile(staging, bytesOf(10, 10)));
  expectSame(own, held);
  expect(staging.stats().copies?.copiedToFastdfs).toBeGreaterThan(2);
  for (const key of kept) expect(staging.fileMap.find(key)).toBeDefined();
});

test('a partner that does not answer in time is away', async () => {
  const { staging, partner } = await pair(undefined, {}, 200);
  await until(isUp(staging));
  await stageFile(staging, bytesOf(100, 1));
  expect(staging.stats().copies).toMatchObject({ copiedToFastdfs: 0 });
  partner.isSilent = true;
  await stageFile(staging, bytesOf(100, 1));
  expect(staging.stats().copies).toMatchObject({ copiedToFastdfs: 1 });
  partner.isSilent = false;
  await until(isUp(staging));
});

test('a partner without room is away until something is released', async () => {
  const { staging, partner } = await pair(1_000_000);
  await until(isUp(staging));
  await stageFile(staging, bytesOf(400_000, 1));
  expect(staging.stats().copies?.copiedToFastdfs).toBe(0);
  await stageFile(staging, bytesOf(800_000, 2));
  expect(staging.stats().copies?.copiedToFastdfs).toBe(1);
  await until(() => !isUp(staging)());
  expect(partner.held.stats().heldBytes).toBeLessThan(1_000_000);
});

test('what is merged is released at the partner, although it stays here', async () => {
  const { staging, partner, own, held } = await pair(undefined, {
    segmentBytes: 300_000,
  });
  await until(isUp(staging));
  const gone = await stageFile(staging, bytesOf(50_000, 1));
  await stageFile(staging, bytesOf(200_000, 1));
  await staging.merging.flush();
  await staging.deletions.delete(gone);
  const kept: Buffer[] = [];
  for (let round = 0; round < 3; round++) {
    for (let seed = 0; seed < 20; seed++)
      kept.push(await stageFile(staging, bytesOf(90_000, seed)));
    await staging.merging.flush();
  }
  await until(() => partner.held.stats().heldBytes < 500_000);
  expect(readdirSync(own).length).toBeGreaterThan(10);
  expectSame(own, held);
  // What is needed of the released segments is in those that are left.
  partner.cut();
  partner.isAway = true;
  const index = await partner.held.adopt(staging.origin);
  expect(index.trunks().length).toBe(staging.fileMap.trunksIn('confirmed').length);
  expect([...index.deleted()].flat()).toEqual([gone]);
  expect([...index.waiting()].every(({ key }) => kept.some((each) => each.equals(key)))).toBe(true);
});

test('the files of a server that is gone are staged at another one, under their keys, once', async () => {
  const { staging, store, partner, origin } = await pair();
  await until(isUp(staging));
  const merged = await stageFile(staging, bytesOf(1_000, 1));
  await staging.merging.flush();
  const [kept, deleted] = [
    await stageFile(staging, bytesOf(2_000, 2)),
    await stageFile(staging, bytesOf(2_000, 3)),
  ];
  await staging.deletions.delete(deleted);
  partner.cut();
  partner.isAway = true;
  const first = await adopted(partner, origin, store as never);
  expect(first.taken.lost).toEqual([]);
  expect(await contentOf(first.staging, kept)).toEqual(bytesOf(2_000, 2));
  expect(first.staging.fileMap.find(deleted)).toBeUndefined();
  expect(first.staging.fileMap.find(merged)).toBeUndefined();
  expect(first.staging.stats().waitingFiles).toBe(1);
  await first.staging.merging.flush();
  expect(first.staging.fileMap.find(kept)?.trunk).toBeDefined();
  await partner.held.drop(origin, async () => true);
  expect(partner.held.stats()).toEqual({ heldCopies: 0, heldBytes: 0 });
});

test('the copy knows which trunks were given up, whatever the map has heard', async () => {
  const { staging, partner } = await pair();
  await until(isUp(staging));
  const [gone, stays] = [bytesOf(1_000, 1), bytesOf(1_000, 2)];
  const dead = await stageFile(staging, gone);
  await staging.merging.flush();
  await stageFile(staging, stays);
  await staging.merging.flush();
  const tasks = staging.fileMap.trunksIn('confirmed').map(({ taskId }) => taskId);
  expect(tasks).toHaveLength(2);
  await staging.deletions.delete(dead);
  await until(() => staging.fileMap.trunksIn('retired').length === 1);
  partner.cut();
  partner.isAway = true;
  const index = await partner.held.adopt(staging.origin);
  expect(tasks.map((task) => index.isGivenUp(task))).toEqual([true, false]);
  expect(index.trunks().map(({ taskId }) => taskId)).toEqual([tasks[1]]);
});

test('a take-over that was interrupted is done again, and stages nothing twice', async () => {
  const { staging, partner, origin } = await pair();
  await until(isUp(staging));
  const keys = await Promise.all([1, 2, 3].map((seed) => stageFile(staging, bytesOf(500, seed))));
  partner.cut();
  partner.isAway = true;
  const other = await openStaging(temporaryFolder());
  await other.staging.takeOver(await partner.held.adopt(origin));
  await other.staging.deletions.delete(keys[0]!);
  // It ended before the map heard that it was done.
  partner.isAdopted = true;
  await partner.restart();
  const index = await partner.held.adopt(origin);
  expect(await other.staging.takeOver(index)).toEqual({ files: 0, lost: [] });
  expect(other.staging.stats().waitingFiles).toBe(2);
  expect(other.staging.fileMap.find(keys[0]!)).toBeUndefined();
});

test('files are read from the copy while they are taken over, and nothing more is accepted', async () => {
  const { staging, partner, origin } = await pair();
  await until(isUp(staging));
  const key = await stageFile(staging, bytesOf(700, 1));
  // Its gateway is connected: it was only cut off from the map.
  partner.isAdopted = true;
  await partner.held.adopt(origin);
  await until(() => !staging.copies!.isAccepting);
  expect(await partner.held.find(origin, key)).toMatchObject({ bytes: bytesOf(700, 1) });
  await expect(stageFile(staging, bytesOf(100, 2))).rejects.toMatchObject({
    code: 'partner_away',
    retryable: false,
  });
  await partner.held.drop(origin, async () => true);
  expect(await partner.held.find(origin, key)).toBeUndefined();
});

test('a copy that is not where it should be is not taken for none', async () => {
  const { partner } = await pair();
  const lost = join(partner.folder, '4711');
  await expect(partner.held.adopt(4711)).rejects.toThrow(lost);
  expect(existsSync(lost)).toBe(false);
  // An operator says that it is.
  mkdirSync(join(lost, 'container'), { recursive: true });
  await partner.restart();
  expect([...(await partner.held.adopt(4711)).waiting()]).toEqual([]);
});

test('a server whose files were taken over is refused for good', async () => {
  const { staging, partner, origin, errors } = await pair();
  await until(isUp(staging));
  await stageFile(staging, bytesOf(100, 1));
  partner.cut();
  partner.isAway = true;
  await until(() => !isUp(staging)());
  await adopted(partner, origin);
  partner.isAway = false;
  await until(() => !staging.copies!.isAccepting);
  expect(errors.at(-1)?.message).toContain('were taken over');
  const { connections } = partner;
  await expect(stageFile(staging, bytesOf(100, 2))).rejects.toMatchObject({
    code: 'partner_away',
    retryable: false,
  });
  expect(partner.connections).toBe(connections);
});

test('a staged file is read at the partner, whether its server is there or away', async () => {
  const { staging, partner, origin } = await pair();
  await until(isUp(staging));
  const find = (of: Buffer) => partner.held.find(origin, of);
  const keys: Buffer[] = [];
  for (const seed of [1, 2]) {
    keys.push(await stageFile(staging, bytesOf(4_000, seed)));
    expect(await find(keys.at(-1)!)).toMatchObject({ bytes: bytesOf(4_000, seed) });
  }
  const [key, deleted] = keys as [Buffer, Buffer];
  await staging.deletions.delete(deleted);
  await until(async () => (await find(deleted)) === 'deleted');
  expect(await find(Buffer.alloc(16))).toBeUndefined();
  partner.isAway = true;
  partner.cut();
  await until(() => !isUp(staging)());
  await until(async () => (await find(key)) !== undefined);
  expect(await find(key)).toMatchObject({ bytes: bytesOf(4_000, 1) });
  expect(await find(deleted)).toBe('deleted');
  partner.isAway = false;
  await until(isUp(staging));
  const later = await stageFile(staging, bytesOf(4_000, 3));
  expect(await find(later)).toMatchObject({ bytes: bytesOf(4_000, 3) });
  expect(await find(deleted)).toBe('deleted');
});

test('a copy is dropped when it is not needed, and not while its gateway is connected', async () => {
  const { staging, partner, origin, own, held } = await pair();
  await until(isUp(staging));
  await stageFile(staging, bytesOf(20_000, 1));
  await partner.held.drop(origin, async () => expect.unreachable());
  expectSame(own, held);
  partner.isAway = true;
  partner.cut();
  await until(() => !isUp(staging)());
  await partner.held.drop(origin, async () => false);
  expectSame(own, held);
  await until(async () => {
    await partner.held.drop(origin, async () => true);
    return readdirSync(held).length === 0;
  });
  expect(partner.held.stats()).toEqual({ heldCopies: 0, heldBytes: 0 });
  partner.isAway = false;
  await until(isUp(staging));
  expectSame(own, held);
});

test('nothing is acknowledged with a copy at a partner that is not recorded', async () => {
  const { staging, partner, own, held } = await pair();
  await until(isUp(staging));
  expect(partner.recorded).toEqual([PARTNER_ORIGIN]);
  await stageFile(staging, bytesOf(100, 1));
  partner.cannotRecord = true;
  partner.cut();
  await until(() => !isUp(staging)());
  await stageFile(staging, bytesOf(100, 2));
  expect(staging.stats().copies?.copiedToFastdfs).toBe(1);
  partner.cannotRecord = false;
  await until(isUp(staging));
  await stageFile(staging, bytesOf(100, 3));
  expectSame(own, held);
});

test('a partner that is stopped says so, at a connection and at a new one', async () => {
  const { staging, partner } = await pair();
  await until(isUp(staging));
  partner.held.leave();
  await until(() => partner.leaves > 1);
  expect(isUp(staging)()).toBe(false);
});

test('what a crash of the partner has torn is sent again', async () => {
  const { staging, partner, own, held } = await pair();
  await until(isUp(staging));
  await stageFile(staging, bytesOf(4_000, 1));
  await stageFile(staging, bytesOf(4_000, 2));
  await partner.stop();
  const newest = join(held, readdirSync(held).at(-1)!);
  truncateSync(newest, readFileSync(newest).length - 100);
  await partner.restart();
  await until(isUp(staging));
  expectSame(own, held);
  await partner.stop();
  writeFileSync(newest, 'no segment at all');
  await partner.restart();
  await until(isUp(staging));
  expectSame(own, held);
});

test('a directory that is older than its copy is refused', async () => {
  const { staging, partner, directory, origin } = await pair();
  await until(isUp(staging));
  await stageFile(staging, bytesOf(4_000, 1));
  await staging.close();
  const older = temporaryFolder();
  await cp(directory, older, { recursive: true, filter: (path) => !path.endsWith('/lock') });
  const again = await openStaging(directory, { copies: partner.options() });
  expect(again.staging.origin).toBe(origin);
  await until(isUp(again.staging));
  const key = await stageFile(again.staging, bytesOf(100, 2));
  await again.staging.close();
  const restored = await openStaging(older, { copies: partner.options() });
  await until(() => restored.errors.length > 0);
  expect(restored.errors[0]?.message).toContain('older than the copy');
  await until(async () => (await partner.held.find(origin, key)) !== undefined);
});

test('a store that is closed while it reaches its partner ends', async () => {
  const { staging, partner } = await pair();
  await until(() => partner.connections > 0);
  await staging.close();
});

test('a partner that hangs does not hold up the end of a connection', async () => {
  const [near, far] = duplexPair();
  const connection = new CopyConnection(near, 40);
  far.write(encodeFrameHeader(FrameType.state, 77, 0));
  expect(await connection.held).toMatchObject({ origin: 77 });
  await connection.finish();
  expect((await connection.ended).message).toContain('no answer within 40 ms');
});
