import { crc32 } from 'node:zlib';
import type { Disk } from '@stevedore/disk';
import { expect, test } from 'vitest';
import { Spool } from '../../../../packages/staging/dist/container/spool.js';
import { Unfinished } from '../../../../packages/staging/dist/container/unfinished.js';
import { Random } from '../../../support/random.js';
import { SimulatedDisk } from '../../../support/simulator/disk.js';
import { CRASH_MODES } from '../../../support/simulator/file.js';

/** Uploads in several requests on a disk that forgets what was not synced. */

const ROOT = '/store';
const KEY = Buffer.alloc(16, 7);
const ABOUT = { name: 'a.bin', type: 'text/plain', createdAt: 5, note: 'mine' };
const PIECES = [Buffer.alloc(700, 'a'), Buffer.alloc(9000, 'b'), Buffer.alloc(1500, 'c')];
const WHOLE = Buffer.concat(PIECES);
const FREE = { beforeWrite: () => undefined };

interface Uploads {
  readonly unfinished: Unfinished;
  readonly spool: Spool;
}

async function opened(disk: Disk, isKnown = false): Promise<Uploads> {
  await disk.makeDirectory(`${ROOT}/spool`);
  await disk.makeDirectory(`${ROOT}/unfinished`);
  await disk.syncDirectory(ROOT);
  const spool = new Spool(disk, `${ROOT}/spool`);
  const sizes = { writeBytes: 1000, syncBytes: 4000 };
  const unfinished = new Unfinished({ disk, folder: `${ROOT}/unfinished`, spool, ...sizes });
  await unfinished.recover(() => isKnown);
  await spool.recover(() => isKnown);
  return { unfinished, spool };
}

async function* inChunks(bytes: Buffer, chunk = 600): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += chunk) yield bytes.subarray(at, at + chunk);
}

async function read({ unfinished }: Uploads): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const { durableBytes } = unfinished.find(KEY)!;
  for await (const chunk of unfinished.read(KEY, 0, durableBytes)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** What has been acknowledged so far. */
interface Acknowledged {
  begun: boolean;
  bytes: number;
  isFile: boolean;
}

async function history(disk: SimulatedDisk, told: Acknowledged): Promise<void> {
  const { unfinished } = await opened(disk);
  await unfinished.begin(KEY, ABOUT, undefined);
  told.begun = true;
  for (const piece of PIECES) {
    told.bytes = await unfinished.append(KEY, told.bytes, inChunks(piece), FREE);
  }
  await unfinished.declareSize(KEY, WHOLE.length);
  await unfinished.finishSpooled(KEY, async (sums) => {
    expect(sums.crc32).toBe(crc32(WHOLE));
    told.isFile = true;
  });
}

test('what was acknowledged is there after a crash at any moment', async () => {
  const random = new Random(1);
  const disk = new SimulatedDisk(ROOT);
  const told = { begun: false, bytes: 0, isFile: false };
  const points: { what: string; told: Acknowledged; disks: SimulatedDisk[] }[] = [];
  disk.onPoint = (when, what) => {
    // Where a byte is read nothing changes.
    if (what.startsWith('read')) return;
    const disks = CRASH_MODES.map((mode) => disk.crash(mode, random));
    points.push({ what: `${when} ${what}`, told: { ...told }, disks });
  };
  await history(disk, told);
  expect(told).toEqual({ begun: true, bytes: WHOLE.length, isFile: true });
  expect(points.length).toBeGreaterThan(60);
  for (const { what, told: before, disks } of points) {
    for (const [index, crashed] of disks.entries()) {
      const about = `${CRASH_MODES[index]} ${what}`;
      const uploads = await opened(crashed, before.isFile);
      const found = uploads.unfinished.find(KEY);
      if (before.isFile) {
        // The record is the truth: the bytes are the spool's.
        expect(found, about).toBeUndefined();
        expect(uploads.spool.sizeOf(KEY), about).toBe(WHOLE.length);
        continue;
      }
      if (!before.begun && !found) continue;
      expect(found, about).toMatchObject({ about: ABOUT });
      expect(found!.durableBytes, about).toBeGreaterThanOrEqual(before.bytes);
      const bytes = await read(uploads);
      expect(bytes.equals(WHOLE.subarray(0, bytes.length)), about).toBe(true);
      expect(uploads.spool.bytes, about).toBe(0);
      expect(uploads.unfinished.bytes, about).toBe(bytes.length);
      // It goes on where it was, and becomes the file.
      const rest = WHOLE.subarray(bytes.length);
      await uploads.unfinished.append(KEY, bytes.length, inChunks(rest), FREE);
      await uploads.unfinished.finishSpooled(KEY, async (sums) => {
        expect(sums.crc32, about).toBe(crc32(WHOLE));
      });
      expect(uploads.unfinished.count, about).toBe(0);
    }
  }
});

test('a body that breaks off keeps what came; with a checksum it keeps nothing of the request', async () => {
  const uploads = await opened(new SimulatedDisk(ROOT));
  const { unfinished } = uploads;
  await unfinished.begin(KEY, ABOUT, 1000);
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.alloc(10, 'x');
    throw new Error('gone');
  }
  await expect(unfinished.append(KEY, 0, broken(), FREE)).rejects.toThrow('gone');
  expect(unfinished.find(KEY)!.durableBytes).toBe(10);
  const check = () => undefined;
  await expect(unfinished.append(KEY, 10, broken(), { ...FREE, check })).rejects.toThrow('gone');
  const wrong = () => {
    throw new Error('wrong');
  };
  const body = () => inChunks(Buffer.alloc(20, 'y'));
  await expect(unfinished.append(KEY, 10, body(), { ...FREE, check: wrong })).rejects.toThrow(
    'wrong',
  );
  expect((await read(uploads)).toString()).toBe('x'.repeat(10));
  expect(await unfinished.append(KEY, 10, body(), { ...FREE, check })).toBe(30);
  expect((await read(uploads)).toString()).toBe('x'.repeat(10) + 'y'.repeat(20));
});

test('what does not fit is refused with its code', async () => {
  const { unfinished } = await opened(new SimulatedDisk(ROOT));
  const code = (name: string) => expect.objectContaining({ code: name });
  await unfinished.begin(KEY, ABOUT, 100);
  const body = () => inChunks(Buffer.alloc(101));
  await expect(unfinished.append(KEY, 5, body(), FREE)).rejects.toEqual(code('offset_mismatch'));
  await expect(unfinished.append(KEY, 0, body(), FREE)).rejects.toEqual(code('too_large'));
  await expect(unfinished.declareSize(KEY, 200)).rejects.toEqual(code('length_mismatch'));
  const other = Buffer.alloc(16, 9);
  await expect(unfinished.append(other, 0, body(), FREE)).rejects.toEqual(code('not_found'));
  await expect(unfinished.remove(other)).rejects.toEqual(code('not_found'));
  expect(await unfinished.removeOlder(ABOUT.createdAt)).toBe(0);
  expect(await unfinished.removeOlder(ABOUT.createdAt + 1)).toBe(1);
  expect([unfinished.count, unfinished.bytes]).toEqual([0, 0]);
});

test('a file that is refused at its end is an upload again, with all of its bytes', async () => {
  const uploads = await opened(new SimulatedDisk(ROOT));
  const { unfinished, spool } = uploads;
  await unfinished.begin(KEY, ABOUT, PIECES[0]!.length);
  await unfinished.append(KEY, 0, inChunks(PIECES[0]!), FREE);
  const full = async () => {
    throw new Error('full');
  };
  await expect(unfinished.finishSpooled(KEY, full)).rejects.toThrow('full');
  expect([spool.bytes, unfinished.bytes]).toEqual([0, PIECES[0]!.length]);
  await expect(unfinished.finishSmall(KEY, full)).rejects.toThrow('full');
  expect((await read(uploads)).equals(PIECES[0]!)).toBe(true);
});

test('bytes that cannot be synced end the upload: what the disk has of them is not known', async () => {
  const disk = new SimulatedDisk(ROOT);
  const { unfinished } = await opened(disk);
  await unfinished.begin(KEY, ABOUT, undefined);
  await unfinished.append(KEY, 0, inChunks(Buffer.alloc(10)), FREE);
  // update, write, then the sync.
  disk.fail({ at: disk.operations + 3, code: 'EIO', once: true });
  await expect(unfinished.append(KEY, 10, inChunks(Buffer.alloc(10)), FREE)).rejects.toThrow('EIO');
  expect(disk.failures).toEqual([expect.stringMatching(/^sync /)]);
  expect(unfinished.find(KEY)).toBeUndefined();
});

test('one owner can have so many unfinished uploads, also after a restart', async () => {
  const disk = new SimulatedDisk(ROOT);
  const { unfinished } = await opened(disk);
  const key = (number: number) => Buffer.concat([Buffer.alloc(12), numbered(number)]);
  const mine = { ...ABOUT, owner: 'me' };
  for (const number of [0, 1, 2]) await unfinished.begin(key(number), mine, undefined, 3);
  const again = (await opened(disk)).unfinished;
  for (const uploads of [unfinished, again]) {
    const refused = uploads.begin(key(1000), mine, undefined, 3);
    await expect(refused).rejects.toMatchObject({ code: 'too_many_unfinished', retryable: true });
  }
  await again.begin(key(1001), { ...ABOUT, owner: 'another' }, undefined, 3);
  await again.begin(key(1002), ABOUT, undefined, 3);
  await again.remove(key(0));
  await again.begin(key(1003), mine, undefined, 3);
});

function numbered(number: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(number);
  return bytes;
}
