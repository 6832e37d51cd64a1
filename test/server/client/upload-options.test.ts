import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { HOUR_MS, movableTime } from '../../support/fake-clock.js';
import { stores } from '../../support/store.js';
import { ofSuite } from '../../support/temporary.js';

describe.each(stores)('$name', async ({ opened }) => {
  const { store } = await opened({}, ofSuite);

  describe('a file with an end', () => {
    test('says when, and is gone from then on, before it is deleted', async () => {
      const later = movableTime();
      const expiresAt = new Date(Date.now() + 2 * HOUR_MS);
      const living = await store.put('a', { expiresAt });
      expect(living.expiresAt).toEqual(expiresAt);
      expect((await store.stat(living.key)).expiresAt).toEqual(expiresAt);
      const over = await store.put('b', { expiresAt: new Date(Date.now() + HOUR_MS) });
      later(HOUR_MS);
      for (const call of [store.get(over.key), store.stat(over.key), store.delete(over.key)]) {
        await expect(call).rejects.toMatchObject({ code: 'not_found' });
      }
      for (const wrong of [new Date('no date'), new Date(Date.now() - 1)]) {
        const refused = store.put('c', { expiresAt: wrong });
        await expect(refused).rejects.toMatchObject({ code: 'invalid_option' });
      }
    });

    test('is not taken for one without, where its name is mistyped', async () => {
      const options = { expires: new Date() } as object;
      await expect(store.put('a', options)).rejects.toThrow('put has no option "expires"');
    });
  });

  test('an upload that may be sent twice is found by its mark', async () => {
    const once = randomBytes(16);
    expect(await store.findOnce(once)).toEqual([]);
    const receipts = await store.putAll([{ body: 'a', name: '1' }, { body: 'b' }], { once });
    expect(await store.findOnce(once)).toEqual(receipts);
    expect(await store.findOnce(once, { withinMs: Number.POSITIVE_INFINITY })).toEqual(receipts);
    expect(await store.findOnce(once, { withinMs: -60_000 })).toEqual([]);
    await store.delete(receipts[0]!.key);
    const deleted = expect.objectContaining({ state: 'deleted', key: '' });
    expect(await store.findOnce(once)).toEqual([deleted, ...receipts.slice(1)]);
    await expect(store.put('x', { once: randomBytes(15) })).rejects.toMatchObject({
      code: 'invalid_option',
    });
  });

  test('durability may be less for one file, which is readable as any other', async () => {
    const large = randomBytes(2 ** 20);
    const receipts = [
      await store.put('fast', { durability: 'os' }),
      await store.put(large, { durability: 'os' }),
    ];
    expect((await (await store.get(receipts[0]!.key)).bytes()).toString()).toBe('fast');
    expect((await (await store.get(receipts[1]!.key)).bytes()).equals(large)).toBe(true);
    await expect(store.put('x', { durability: 'none' as 'os' })).rejects.toMatchObject({
      code: 'invalid_option',
    });
  });
});
