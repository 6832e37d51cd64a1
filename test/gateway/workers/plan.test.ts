import { availableParallelism } from 'node:os';
import { expect, it } from 'vitest';
import { checkGatewayOptions } from '../../../gateway/dist/options.js';
import { assignDirectories, shareOf, workerCount } from '../../../gateway/dist/workers/plan.js';

it('every worker has a directory of its own, and what is left is dealt out', () => {
  expect(assignDirectories(1, [])).toEqual([[1]]);
  expect(assignDirectories(3, [2, 3])).toEqual([[1], [2], [3]]);
  expect(assignDirectories(2, [2, 3, 4, 7])).toEqual([
    [1, 3, 7],
    [2, 4],
  ]);
  expect(assignDirectories(3, [5])).toEqual([[1, 5], [2], [3]]);
});

it('counts workers, and divides memory and disk among them', () => {
  expect(workerCount('3')).toBe(3);
  expect(workerCount('auto')).toBe(availableParallelism());
  const options = checkGatewayOptions({ containerSize: '3GiB', cacheSize: '10MiB' });
  const share = shareOf(options, 3);
  expect(share).toMatchObject({ containerSize: 2 ** 30, cacheSize: 3_495_253 });
  expect(share.trunkSize).toBe(options.trunkSize);
});
