import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { Child } from '../../../bench/dist/harness/child.js';
import { COMPILED } from '../../support/paths.js';

test('time passes while a reader has paused, however much is on its way, and not while it reads', async () => {
  const module = pathToFileURL(`${COMPILED}/support/bench/virtual-time-process.js`);
  const child = new Child<typeof import('../../support/bench/virtual-time-process.js')>(module);
  onTestFinished(() => child[Symbol.asyncDispose]());
  expect(await child.call('sendToPausedReader')).toEqual([64 * 2 ** 20, 1_000]);
});
