import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type FileStore, isStoreError } from '@stevedore/client';
import { describe, expect, test } from 'vitest';
import { until } from '../../support/staging.js';
import { stores } from '../../support/store.js';
import { ofSuite } from '../../support/temporary.js';

async function* slowly(bytes: Buffer, step = 1000): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += step) {
    await new Promise((resolve) => setImmediate(resolve));
    yield bytes.subarray(at, at + step);
  }
}

describe.each(stores)('the store of $name', async ({ opened }) => {
  const shared = await opened({}, ofSuite);

  describe('put and get', () => {
    test('give a body in every form', async () => {
      const { store } = shared;
      const bytes = randomBytes(50_000);
      for (const body of [bytes, slowly(bytes)]) {
        const about = { name: 'ä/../b.jpg', type: 'image/jpeg', group: 'g' };
        const receipt = await store.put(body, about);
        expect(receipt).toMatchObject({ ...about, size: 50_000, state: 'staged' });
        const file = await store.get(receipt.key);
        expect(file).toMatchObject({ ...about, size: 50_000 });
        expect((await file.bytes()).equals(bytes)).toBe(true);
        expect((await buffer(file.stream())).equals(bytes)).toBe(true);
        expect(
          Buffer.from(await new Response(file.web() as never).arrayBuffer()).equals(bytes),
        ).toBe(true);
      }
      const lent = Buffer.from(bytes);
      const { key } = await store.put(lent);
      lent.fill(0);
      expect((await (await store.get(key)).bytes()).equals(bytes)).toBe(true);
    });

    test('an empty file is a file, before and after merging', async () => {
      const { store, behind } = await opened({ retain: 0 });
      const { key } = await store.put('', { name: 'empty.txt' });
      expect((await (await store.get(key)).bytes()).length).toBe(0);
      await behind.flush();
      const id = await store.settled(key);
      for (const handle of [key, id]) {
        const file = await store.get(handle);
        expect(file).toMatchObject({ size: 0, crc32: 0, state: 'merged', name: 'empty.txt' });
        expect((await file.bytes()).length).toBe(0);
        expect((await buffer(file.stream())).length).toBe(0);
      }
    });

    test('by key and by slice id, before and after merging, from disk and from FastDFS', async () => {
      for (const retain of ['1GiB', 0] as const) {
        const { store, behind } = await opened({ retain, cacheSize: 0 });
        const files: { key: string; bytes: Buffer }[] = [];
        for (let index = 0; index < 40; index++) {
          const bytes = randomBytes(1 + index * 1500);
          const { key } = await store.put(bytes, { name: `${index}.jpg`, type: 'image/jpeg' });
          files.push({ key, bytes });
        }
        const check = async (handle: (key: string) => Promise<string> | string) => {
          for (const { key, bytes } of files) {
            const file = await store.get(await handle(key));
            expect((await file.bytes()).equals(bytes)).toBe(true);
            expect(file).toMatchObject({ key, type: 'image/jpeg' });
          }
        };
        await check((key) => key);
        await behind.flush();
        await check((key) => key);
        await check((key) => store.settled(key));
        const file = await store.get(files[9]!.key);
        expect(await file.bytes({ range: { start: 10, end: 19 } })).toEqual(
          files[9]!.bytes.subarray(10, 20),
        );
        await expect(file.bytes({ range: { start: 0, end: file.size } })).rejects.toMatchObject({
          code: 'range_not_satisfiable',
        });
      }
    });

    test('large files are streamed in and out, whole and in part', async () => {
      for (const retain of ['1GiB', 0] as const) {
        const { store, behind } = await opened({ retain });
        const bytes = randomBytes(5_000_000);
        const { key } = await store.put(slowly(bytes, 60_000), { name: 'film.mp4' });
        const check = async (handle: string) => {
          const file = await store.get(handle);
          expect(await file.content()).toBeInstanceOf(Readable);
          expect((await buffer(file.stream())).equals(bytes)).toBe(true);
          const part = await file.bytes({ range: { start: 1_234_567, end: 2_345_678 } });
          expect(part.equals(bytes.subarray(1_234_567, 2_345_679))).toBe(true);
        };
        await check(key);
        await behind.flush();
        const id = await store.settled(key);
        expect(id).toMatch(/\.mp4$/);
        await check(key);
        await check(id);
        await store.delete(key);
        await expect(store.get(id)).rejects.toMatchObject({ code: 'not_found' });
      }
    });

    test('an unknown and a malformed handle are told apart', async () => {
      const { store } = shared;
      await expect(store.get('AaH8MuyOZ8P9wehY5cayhw')).rejects.toMatchObject({
        code: 'not_found',
      });
      const malformed = ['', 'x', '../../etc/passwd', 'group1/M00/00/00/..'];
      for (const id of [...malformed, 'AaH8MuyOZ8P9wehY5cayhx']) {
        await expect(store.get(id), id).rejects.toMatchObject({ code: 'invalid_id' });
      }
      await expect(
        store.get('group1/M00/00/00/fwARA2sAsQeACEvMAAAAAAAAAAA527.txt'),
      ).rejects.toMatchObject({ code: 'not_found' });
      await expect(store.delete('nothing')).rejects.toMatchObject({ code: 'invalid_id' });
      // What an app hands on that reads a parameter which is not there.
      for (const call of ['get', 'stat', 'delete', 'settled'] as const) {
        for (const id of [undefined, null, 5]) {
          const outcome = (async () => store[call](id as never))();
          await expect(outcome, `${call} ${id}`).rejects.toMatchObject({ name: 'StoreError' });
        }
      }
    });
  });

  describe('what is refused leaves nothing behind', async () => {
    const { store, behind } = await opened({}, ofSuite);

    async function expectNothing(behind: FileStore): Promise<void> {
      await until(() => behind.stats().uploadsInFlight === 0);
      expect(behind.stats()).toMatchObject({ stagedFiles: 0, stagedBytes: 0 });
      expect(behind.stats().containerBytes).toBeLessThan(5000);
    }

    test('too long a body, announced or not, small or large', async () => {
      const tooLarge = { code: 'too_large' };
      await expect(store.put(randomBytes(101), { maxBytes: 100 })).rejects.toMatchObject(tooLarge);
      await expect(store.put('x', { size: 101, maxBytes: 100 })).rejects.toMatchObject(tooLarge);
      const long = slowly(randomBytes(9_000_000), 100_000);
      await expect(store.put(long)).rejects.toMatchObject(tooLarge);
      await expectNothing(behind);
    });

    test('a body of another length than announced', async () => {
      for (const size of [0, 49_999, 50_001]) {
        const put = store.put(slowly(randomBytes(50_000)), { size });
        await expect(put).rejects.toMatchObject({ code: 'length_mismatch' });
      }
      const large = store.put(slowly(randomBytes(500_000)), { size: 500_001 });
      await expect(large).rejects.toMatchObject({ code: 'length_mismatch' });
      await expectNothing(behind);
    });

    test('a body that fails, and its source is told to stop', async () => {
      for (const length of [10_000, 1_000_000]) {
        const source = Readable.from(
          (async function* () {
            yield randomBytes(length);
            throw new Error('the client went away');
          })(),
        );
        const failed = await store.put(source).catch((error) => error);
        expect(isStoreError(failed, 'aborted')).toBe(true);
        expect(failed.message).toContain('the client went away');
        expect(source.destroyed).toBe(true);
      }
      await expectNothing(behind);
    });

    test('objects in a stream, names that are too long, and what was aborted before', async () => {
      const aborted = store.put('x', { signal: AbortSignal.abort() });
      await expect(aborted).rejects.toMatchObject({ code: 'aborted' });
      const objects = Readable.from([{ not: 'bytes' }]);
      await expect(store.put(objects)).rejects.toMatchObject({ code: 'invalid_option' });
      const name = 'ü'.repeat(513);
      await expect(store.put('x', { name })).rejects.toMatchObject({ code: 'invalid_option' });
      await expectNothing(behind);
    });

    test('with names that are no text in UTF-8, as receipts say', async () => {
      const { store, behind } = shared;
      const names = { name: 'half \ud83d.jpg', group: '\udfff g' };
      const receipt = await store.put('x', names);
      expect(receipt).toMatchObject({ name: 'half \ufffd.jpg', group: '\ufffd g' });
      expect(await store.stat(receipt.key)).toMatchObject(receipt);
      expect((await behind.list({ group: names.group })).files).toHaveLength(1);
      const [part] = await store.putAll([{ body: 'y', name: names.name }], names);
      expect(await store.stat(part!.key)).toMatchObject({
        name: 'half \ufffd.jpg',
        group: '\ufffd g',
      });
    });

    test('several files are stored all or none', async () => {
      const parts = async function* (fail: boolean) {
        yield { body: randomBytes(1000), name: 'a' };
        yield { body: slowly(randomBytes(400_000)), name: 'b' };
        if (fail) throw new Error('the form ends too early');
        yield { body: '', name: 'c' };
      };
      await expect(store.putAll(parts(true))).rejects.toThrow('too early');
      await expectNothing(behind);
      const receipts = await shared.store.putAll(parts(false), { group: () => 'form-1' });
      expect(receipts.map(({ name, group }) => [name, group])).toEqual([
        ['a', 'form-1'],
        ['b', 'form-1'],
        ['c', 'form-1'],
      ]);
      expect(await store.putAll([])).toEqual([]);
    });
  });

  describe('slice ids', () => {
    test('a forged one never gives a byte', async () => {
      const { store, behind } = await opened({ retain: 0 });
      const bodies = Array.from({ length: 12 }, () => randomBytes(3000));
      const keys: string[] = [];
      for (const body of bodies) keys.push((await store.put(body, { name: 'a.jpg' })).key);
      await behind.flush();
      const id = await store.settled(keys[5]!);
      const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
      for (let at = 0; at < id.length; at++) {
        for (const change of [1, 17]) {
          const position = alphabet.indexOf(id[at]!);
          const other = position < 0 ? 'A' : alphabet[(position + change) % 64]!;
          const forged = id.slice(0, at) + other + id.slice(at + 1);
          const outcome = await store.get(forged).then(
            (file) => file.bytes().then(() => 'read'),
            (error) => error.code,
          );
          expect(['not_found', 'invalid_id'], `${forged} at ${at}`).toContain(outcome);
        }
      }
      expect((await (await store.get(id)).bytes()).equals(bodies[5]!)).toBe(true);
    });

    test('of another store are read by their trunk’s directory, with name and type', async () => {
      const { store: first, behind: firstBehind } = shared;
      const about = { name: 'x.txt', type: 'text/plain', group: 'g' };
      const { key } = await first.put('from elsewhere', about);
      await first.put('neighbour', { name: 'y.txt' });
      await firstBehind.flush();
      const id = await first.settled(key);
      const { store: second } = await opened({ trackers: firstBehind.trackers });
      const file = await second.get(id);
      expect(file).toMatchObject({ key, ...about, state: 'merged' });
      expect((await file.bytes()).toString()).toBe('from elsewhere');
      const forged = id.replace(/.(?=\.txt$)/, (last) => (last === 'A' ? 'Q' : 'A'));
      await expect(second.get(forged)).rejects.toMatchObject({ code: 'not_found' });
      await expect(second.get(`${id.slice(0, -4)}.jpg`)).rejects.toMatchObject({
        code: 'not_found',
      });
    });
  });

  test('settled waits for the trunk; deletion, abort and close end the waiting', async () => {
    const { store, behind } = await opened({ mergeMaxAge: '1h' });
    const [a, b, c, d] = await Promise.all(['a', 'b', 'c', 'd'].map((text) => store.put(text)));
    const ids = store.settled(a!.key);
    const controller = new AbortController();
    const aborted = store.settled(b!.key, { signal: controller.signal });
    controller.abort();
    await expect(aborted).rejects.toMatchObject({ code: 'aborted' });
    const deleted = store.settled(c!.key);
    deleted.catch(() => {});
    await store.delete(c!.key);
    await expect(deleted).rejects.toMatchObject({ code: 'not_found' });
    await behind.flush();
    expect(await ids).toMatch(/^group1\/M00\/[0-9A-F]{2}\/[0-9A-F]{2}\/.{49}$/);
    expect(await store.settled(d!.key)).toBeDefined();
    const late = await store.put('late');
    const unsettled = store.settled(late.key);
    unsettled.catch(() => {});
    await store.close();
    await expect(unsettled).rejects.toMatchObject({ code: 'closed' });
    await expect(store.put('x')).rejects.toMatchObject({ code: 'closed' });
  });
});
