import { expect, it } from 'vitest';
import type { ApiKey } from '../../../../gateway/dist/access/api-keys.js';
import { Calls } from '../../../../gateway/dist/workers/calls.js';
import { askShared, Shared, type SharedCalls } from '../../../../gateway/dist/workers/shared.js';

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

it('one quota counts for all workers, and what a dead one had reserved is free again', async () => {
  const [one, other] = workers(() => 0);
  const limited = key({ bytesPerDay: 100 });
  expect(await one.ledger.reserve(limited, 60, 60)).toBe(60);
  expect(await other.ledger.reserve(limited, 1, 60)).toBe(40);
  const refused = { code: 'quota_exceeded', headers: { 'retry-after': '1' } };
  await expect(one.ledger.reserve(limited, 1, 1)).rejects.toMatchObject(refused);
  const tooLarge = one.ledger.reserve(limited, 101, 101);
  await expect(tooLarge).rejects.toMatchObject({ code: 'too_large' });
  one.ledger.settle('k', 60, 50);
  other.end();
  expect(await one.ledger.reserve(limited, 1, 60)).toBe(50);
  one.ledger.settle('k', 50, 50);
  expect(await one.ledger.today()).toEqual([{ id: 'k', bytes: 100 }]);
  one.ledger.giveBack('k', 1, 30);
  one.ledger.giveBack('k', 0, 20);
  expect(await one.ledger.reserve(limited, 1, 60)).toBe(20);
});

it('an upload with a key is under way once, until it or its worker has ended', async () => {
  const [one, other] = workers(() => 0);
  expect(await one.marks.begin('a')).toBe('free');
  expect(await other.marks.begin('a')).toBe('taken');
  other.marks.end('a', false);
  expect(await other.marks.begin('a')).toBe('taken');
  one.marks.end('a', false);
  expect(await other.marks.begin('a')).toBe('free');
  other.end();
  expect(await one.marks.begin('a')).toBe('free');
});

it('a URL that one worker has seen used is spent at all', async () => {
  const [one, other] = workers(() => 0);
  expect(await one.marks.begin('mark')).toBe('free');
  one.marks.end('mark', true);
  expect(await other.marks.begin('mark')).toBe('spent');
  other.marks.end('mark', false);
  expect(await one.marks.begin('mark')).toBe('spent');
});
