import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Changes } from '../../../packages/staging/dist/changes.js';

test('of the same failure in a row of repeated work only the first is reported', async () => {
  const changes = new Changes();
  const reported: string[] = [];
  changes.on('error', ({ message }) => reported.push(message));
  changes.tellSoon();
  await turn();
  const outcomes = ['away', 'away', 'broken', 'away', '', 'away', 'away'];
  const run = changes.every(3_600_000, async () => {
    const message = outcomes.shift();
    if (message !== '') throw new Error(message);
  });
  while (outcomes.length > 0) {
    run();
    await turn();
  }
  changes.end();
  expect(reported).toEqual(['away', 'broken', 'away', 'away']);
});
