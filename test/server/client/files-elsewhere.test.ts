import type { RequestListener } from 'node:http';
import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import {
  type Asked,
  AWAY,
  CONTENT,
  has,
  KEY,
  LARGE,
  mapped,
  refuse,
  type Scene,
  say,
  scene,
} from '../../support/client/elsewhere.js';

/** Files of other servers, where the map, FastDFS and the file's gateway say different things. */

const NAME = KEY.toString('base64url');
const UNAVAILABLE = { code: 'storage_unavailable', retryable: true };
const GONE = { code: 'not_found' };
const OLD = mapped('old', CONTENT);
const NEW = mapped('new', CONTENT);
const LARGE_OLD = mapped('old', LARGE);
const LARGE_NEW = mapped('new', LARGE);
const sayGone = say('not_found');

const read = async ({ files }: Asked): Promise<Buffer> =>
  (await files.find(KEY, {})).bytes({ range: { start: 4, end: 10 } });
const PART = CONTENT.subarray(4, 11);

it('a file that compaction has moved is read at its new place', async () => {
  expect(await read(await scene({ map: [OLD, NEW], places: [NEW] }))).toEqual(PART);
});

it('a file that has moved before the map knows of it is read at its gateway', async () => {
  for (const map of [[OLD], [OLD, undefined], [OLD, NEW]]) {
    expect(await read(await scene({ map, gateway: has() }))).toEqual(PART);
  }
});

it('a mapped file that FastDFS does not have is gone only if the map or its gateway says so', async () => {
  await expect(read(await scene({ map: [OLD] }))).rejects.toMatchObject(UNAVAILABLE);
  const gone = await scene({ map: [OLD], gateway: sayGone });
  await expect(read(gone)).rejects.toMatchObject(GONE);
  const removed = await scene({ map: [OLD, 'removed'] });
  await expect(read(removed)).rejects.toMatchObject(GONE);
  expect(removed.urls).toEqual([]);
});

it('a mapped file that FastDFS has lost is missing if its gateway says so or there is none', async () => {
  const sayLost = say('missing_in_fastdfs');
  for (const gateway of ['unknown', sayLost] as const) {
    const lost = await scene({ map: [OLD], gateway });
    for (let turn = 0; turn < 2; turn++) {
      await expect(read(lost)).rejects.toMatchObject({ code: 'missing_in_fastdfs' });
    }
    expect(lost.missing.count).toBe(1);
  }
});

describe('a large file that vanishes from its place while it is read', () => {
  const readAll = async (how: Partial<Scene>, range?: { start: number; end: number }) => {
    const { files } = await scene({ map: [LARGE_OLD], vanishesAt: 600_000, ...how });
    return (await files.find(KEY, {})).bytes(range ? { range } : {});
  };
  const moved = { map: [LARGE_OLD, LARGE_NEW], places: [LARGE_NEW] };

  it('is read on at its new place, or at its gateway', async () => {
    expect((await readAll(moved)).equals(LARGE)).toBe(true);
    const part = await readAll(moved, { start: 2, end: 600_020 });
    expect(part.equals(LARGE.subarray(2, 600_021))).toBe(true);
    expect((await readAll({ gateway: has({}, LARGE) })).equals(LARGE)).toBe(true);
  });

  it('is gone only if the map or its gateway says so', async () => {
    await expect(readAll({})).rejects.toMatchObject(UNAVAILABLE);
    await expect(readAll({ map: [LARGE_OLD, 'removed'] })).rejects.toMatchObject(GONE);
    await expect(readAll({ gateway: sayGone })).rejects.toMatchObject(GONE);
  });
});

it('a part of a large file of another gateway is never of wrong bytes', async () => {
  let sent = LARGE;
  const facts = { crc32: crc32(LARGE).toString(16).padStart(8, '0') };
  const gateway: RequestListener = (...asked) => has(facts, sent)(...asked);
  const { files } = await scene({ map: [undefined], gateway });
  const part = async () =>
    (await files.find(KEY, {})).bytes({ range: { start: 300_000, end: 300_099 } });
  const wrong = Buffer.from(LARGE);
  wrong[300_050]! ^= 1;
  for (const known of [false, true]) {
    sent = wrong;
    await expect(part(), `checksums known: ${known}`).rejects.toMatchObject({ code: 'corrupt' });
    sent = LARGE;
    expect(await part()).toEqual(LARGE.subarray(300_000, 300_100));
  }
});

it('waiting for a FastDFS id asks for no bytes, and ends where there will be none', async () => {
  const merged = await scene({ map: [undefined], gateway: has({ state: 'merged' }) });
  await expect(merged.files.settled(KEY, undefined)).rejects.toMatchObject({
    ...GONE,
    message: expect.stringContaining('no FastDFS id can be made for it'),
  });
  expect(merged.urls).toEqual([`/peer/facts?most=0&keys=${NAME}`]);
  const withId = await scene({ map: [undefined], gateway: has({ state: 'merged', fileId: 'id' }) });
  expect(await withId.files.settled(KEY, undefined)).toBe('id');
});

it('waiting for a FastDFS id can be aborted', async () => {
  const { files } = await scene({ map: [undefined], gateway: has() });
  const settled = files.settled(KEY, AbortSignal.timeout(200));
  await expect(settled).rejects.toMatchObject({ name: 'StoreError', code: 'aborted' });
});

it('while the map is away a file is deleted if its own gateway says so, and nobody guesses', async () => {
  const isRemoved = async (gateway: RequestListener | 'unknown') =>
    (await scene({ map: AWAY, gateway })).files.isRemoved(KEY);
  expect(await isRemoved(sayGone)).toBe(true);
  expect(await isRemoved(has())).toBe(false);
  await expect(isRemoved(refuse)).rejects.toMatchObject(UNAVAILABLE);
  const { files, urls } = await scene({ map: ['removed'], gateway: has() });
  expect(await files.isRemoved(KEY)).toBe(true);
  expect(urls).toEqual([]);
});

describe('a deletion whose answer is lost', () => {
  /** Deletes the file for the first request, and does not live to answer. */
  const killed = (): RequestListener => {
    let isDeleted = false;
    return ({ socket }, response) => {
      if (!isDeleted) socket.destroy();
      else response.writeHead(404, PROBLEM).end(JSON.stringify({ code: 'not_found', detail: '' }));
      isDeleted = true;
    };
  };
  const PROBLEM = { 'content-type': 'application/problem+json' };

  it('is done if the file is gone afterwards, at its gateway or in the copy of its files', async () => {
    const returned = await scene({ map: [undefined], gateway: killed() });
    await returned.files.delete(KEY);
    expect(returned.removed).toEqual([KEY]);
    expect(returned.urls).toHaveLength(2);
    const copied = await scene({ map: [undefined], gateway: killed(), held: 'deleted' });
    await copied.files.delete(KEY);
    expect(copied.removed).toEqual([KEY]);
    expect(copied.urls).toHaveLength(1);
  });

  it('is not excused where no request went out', async () => {
    const gone = await scene({ map: ['removed'], gateway: killed() });
    await expect(gone.files.delete(KEY)).rejects.toMatchObject(GONE);
    expect(gone.removed).toEqual([]);
  });
});
