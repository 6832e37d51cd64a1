import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { drive } from '../../../bench/dist/harness/load.js';

it('begins one operation a loop where the time was over before, and no other', async () => {
  const begun: number[] = [];
  const { operations } = await drive({ concurrency: 3, maxSeconds: 0 }, async (index) => {
    begun.push(index);
    await sleep(1);
  });
  expect([operations, begun]).toEqual([3, [0, 1, 2]]);
});

it('begins no more operations than were asked for', async () => {
  let begun = 0;
  const { operations } = await drive({ operations: 2, concurrency: 3, maxSeconds: 0 }, async () => {
    begun += 1;
  });
  expect([operations, begun]).toEqual([2, 2]);
});
