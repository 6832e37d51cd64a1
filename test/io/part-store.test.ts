import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { PartStore } from '../../packages/storage/dist/io-server/part-store.js';
import { Random } from '../support/random.js';
import { SimulatedDisk } from '../support/simulated-disk.js';
import { CRASH_MODES } from '../support/simulated-file.js';

/** The parts of an I/O server on a disk that forgets what was not synced. */

const ROOT = '/io';
const OWNER = '00000000000000aa';
const RUN = '00000000000000bb';

const handle = (n: number) => n.toString(16).padStart(16, '0');
const part = (n: number) => ({ owner: OWNER, handle: handle(n) });

async function storeOn(disk: SimulatedDisk, run = RUN): Promise<PartStore> {
  const store = new PartStore(disk, ROOT, run);
  await store.prepare();
  return store;
}

function writeOf(
  n: number,
  offset: number,
  bytes: Buffer,
  flags: { create?: boolean; sync?: boolean; verify?: boolean } = {},
) {
  const { create = false, sync = false, verify = false } = flags;
  const rest = { run: RUN, offset, size: bytes.length, crc32: crc32(bytes) };
  return { ...part(n), ...rest, create, sync, verify };
}

/** Everything that a part has; undefined if there is none. */
async function contentOf(store: PartStore, n: number): Promise<Buffer | undefined> {
  let size: number;
  try {
    size = await store.size(part(n));
  } catch {
    return undefined;
  }
  const bytes = { offset: 0, stripeBytes: size, from: 0, bytes: size };
  const sum = await store.check({ ...part(n), offset: 0, bytes: size });
  return store.read({ ...part(n), ...bytes, crc32: sum });
}

describe('the parts of an I/O server', () => {
  it('what was answered as synced is there after every crash, at every point', async () => {
    const disk = new SimulatedDisk(ROOT);
    /** What the parts are to have: of each all that it may have by now. */
    let expected = new Map<number, (Buffer | undefined)[]>();
    const points: { disk: SimulatedDisk; expected: Map<number, (Buffer | undefined)[]> }[] = [];
    const random = new Random(3);
    disk.onPoint = (_when, what) => {
      for (const mode of CRASH_MODES) {
        const crashed = disk.crash(mode, random);
        if (what.startsWith('read') || what.startsWith('stat')) continue;
        points.push({ disk: crashed, expected: new Map(expected) });
      }
    };
    const store = await storeOn(disk);
    const step = async (
      n: number,
      after: Buffer | undefined,
      work: () => Promise<void>,
    ): Promise<void> => {
      const before = expected.get(n) ?? [undefined];
      expected = new Map(expected).set(n, [...before, after]);
      await work();
      expected = new Map(expected).set(n, [after]);
    };
    const a = Buffer.alloc(700, 1);
    const b = Buffer.alloc(900, 2);
    await step(1, a, () =>
      store.write(writeOf(1, 0, a, { create: true, sync: true, verify: true }), [a]),
    );
    const ab = Buffer.concat([a, b]);
    await step(1, ab, () => store.write(writeOf(1, 700, b, { sync: true }), [b]));
    await store.create({ owner: OWNER, handles: [handle(2)] });
    expected = new Map(expected).set(2, [Buffer.alloc(0)]);
    await step(2, b, () => store.write(writeOf(2, 0, b, { sync: true }), [b]));
    await step(3, a, () => store.clone({ ...part(1), to: handle(3), offset: 0, size: 700 }));
    await step(1, undefined, () => store.delete({ owner: OWNER, handles: [handle(1), handle(9)] }));
    expect(await store.list({ owner: OWNER, after: '' })).toEqual([handle(2), handle(3)]);
    disk.onPoint = () => {};
    expect(points.length).toBeGreaterThan(100);
    for (const point of points) {
      const again = await storeOn(point.disk, 'ffffffffffffffff');
      for (const [n, possible] of point.expected) {
        const found = await contentOf(again, n);
        if (possible.length === 1) {
          const [must] = possible;
          if (must === undefined) expect(found).toBeUndefined();
          // What was synced is there; an unfinished append may have left more behind it.
          else expect(found?.subarray(0, must.length).equals(must)).toBe(true);
          continue;
        }
        // Under way: what was there before is not touched, but for a deletion.
        const before = possible[0];
        if (before === undefined || possible.at(-1) === undefined) continue;
        expect(found?.subarray(0, before.length).equals(before)).toBe(true);
      }
    }
  });

  it('cuts before it fills up with zeros', async () => {
    const store = await storeOn(new SimulatedDisk(ROOT));
    const bytes = Buffer.alloc(1000, 7);
    await store.write(writeOf(1, 0, bytes, { create: true, sync: true }), [bytes]);
    await store.setSize({ ...part(1), keep: 400, size: 600 });
    const expected = Buffer.concat([Buffer.alloc(400, 7), Buffer.alloc(200)]);
    expect(await contentOf(store, 1)).toEqual(expected);
    await store.setSize({ ...part(1), keep: 100, size: 100 });
    expect(await contentOf(store, 1)).toEqual(Buffer.alloc(100, 7));
  });

  it('refuses bytes that changed on their way, other runs, missing parts and damage', async () => {
    const disk = new SimulatedDisk(ROOT);
    const store = await storeOn(disk);
    const bytes = Buffer.alloc(100, 7);
    const whole = writeOf(1, 0, bytes, { create: true, sync: true });
    await expect(store.write(whole, [Buffer.alloc(100, 8)])).rejects.toMatchObject({ status: 5 });
    await expect(store.write({ ...whole, run: OWNER }, [bytes])).rejects.toMatchObject({
      status: 11,
    });
    await expect(store.write({ ...whole, create: false }, [bytes])).rejects.toMatchObject({
      status: 2,
    });
    await store.write(whole, [bytes]);
    await expect(store.sync({ ...part(1), run: RUN, size: 101 })).rejects.toMatchObject({
      status: 5,
    });
    const read = { ...part(1), offset: 0, stripeBytes: 100, from: 10, bytes: 20 };
    expect(await store.read({ ...read, crc32: crc32(bytes) })).toEqual(bytes.subarray(10, 30));
    await expect(store.read({ ...read, crc32: 1 })).rejects.toMatchObject({ status: 5 });
    await expect(
      store.read({ ...read, stripeBytes: 101, crc32: crc32(bytes) }),
    ).rejects.toMatchObject({ status: 5 });
    expect(disk.openFiles).toBe(0);
  });

  it('lists page after page, each owner its own', async () => {
    const store = await storeOn(new SimulatedDisk(ROOT));
    const handles = Array.from({ length: 1500 }, (_, n) =>
      ((n * 2654435761) % 2 ** 32).toString(16).padStart(8, '0').padEnd(16, '0'),
    );
    for (let at = 0; at < handles.length; at += 500) {
      await store.create({ owner: OWNER, handles: handles.slice(at, at + 500) });
    }
    await store.create({ owner: RUN, handles: [handle(1)] });
    const first = await store.list({ owner: OWNER, after: '' });
    expect(first).toHaveLength(1024);
    const second = await store.list({ owner: OWNER, after: first.at(-1)! });
    expect([...first, ...second]).toEqual([...handles].sort());
    expect(await store.list({ owner: OWNER, after: second.at(-1)! })).toEqual([]);
  });
});
