import { expect, it } from 'vitest';
import type { ApiKey } from '../../../gateway/dist/access/api-keys.js';
import { Calls } from '../../../gateway/dist/workers/calls.js';
import { askShared, Shared, type SharedCalls } from '../../../gateway/dist/workers/shared.js';

const key = (limits: Partial<ApiKey>): ApiKey => ({ id: 'k', ...limits }) as ApiKey;

/** Two workers of one gateway. */
function workers(now: () => number) {
  const shared = new Shared(now);
  const worker = () => {
    const { answers, end } = shared.for();
    const asking: Calls<SharedCalls> = new Calls((message) => {
      answering.take(structuredClone(message));
    }, {});
    const answering = new Calls<Record<never, never>>((message) => {
      asking.take(structuredClone(message));
    }, answers);
    return { ...askShared(asking), end };
  };
  return [worker(), worker()] as const;
}

it('one rate counts for all workers', async () => {
  let now = 0;
  const [one, other] = workers(() => now);
  const limited = key({ requestsPerSecond: 2 });
  await one.usage.request(limited);
  await other.usage.request(limited);
  const refused = { code: 'rate_limited', headers: { 'retry-after': '1' } };
  await expect(one.usage.request(limited)).rejects.toMatchObject(refused);
  await expect(other.usage.request(limited)).rejects.toMatchObject(refused);
  await one.usage.request(key({}));
  now = 1_000;
  await other.usage.request(limited);
});

it('one quota counts for all workers, and what a dead one had set aside is free again', async () => {
  const [one, other] = workers(() => 0);
  const limited = key({ bytesPerDay: 100 });
  const first = await one.usage.setAside(limited, 60);
  expect(first?.bytes).toBe(60);
  expect((await other.usage.setAside(limited, 60))?.bytes).toBe(40);
  await expect(one.usage.setAside(limited, 1)).rejects.toMatchObject({ code: 'quota_exceeded' });
  first!.settle(50);
  other.end();
  expect((await one.usage.setAside(limited, 60))?.bytes).toBe(50);
  expect(await other.usage.setAside(key({}), 60)).toBeUndefined();
});

it('an upload with a key is under way once, until it or its worker has ended', async () => {
  const [one, other] = workers(() => 0);
  expect(await one.underWay.begin('a')).toBe(true);
  expect(await other.underWay.begin('a')).toBe(false);
  other.underWay.end('a');
  expect(await other.underWay.begin('a')).toBe(false);
  one.underWay.end('a');
  expect(await other.underWay.begin('a')).toBe(true);
  other.end();
  expect(await one.underWay.begin('a')).toBe(true);
});

it('a URL that one worker has seen used is spent at all', async () => {
  const [one, other] = workers(() => 0);
  const mark = Buffer.from('mark');
  await other.spent.demandUnspent(mark);
  one.spent.add(mark, 1_000);
  await expect(other.spent.demandUnspent(mark)).rejects.toMatchObject({
    code: 'signature_expired',
  });
});
