import { KeyedLock } from '@stevedore/async';
import { expect, it } from 'vitest';

it('the keyed lock runs actions of one key in turns, also after one that failed', async () => {
  const lock = new KeyedLock();
  const order: string[] = [];
  const step =
    (name: string, fails = false) =>
    async () => {
      order.push(`${name} begins`);
      await new Promise((resolve) => setImmediate(resolve));
      order.push(`${name} ends`);
      if (fails) throw new Error(name);
    };
  const failed = lock.run('key', step('a', true));
  const second = lock.run('key', step('b'));
  await expect(failed).rejects.toThrow('a');
  await second;
  expect(order).toEqual(['a begins', 'a ends', 'b begins', 'b ends']);
});
