import { expect, it } from 'vitest';
import { clockTrouble } from '../../../packages/client/dist/deployment/troubles.js';

/** A server whose clock is not that of the map. */

const HOUR_MS = 3_600_000;

it('a clock that is an hour off is reported, with what comes of it', () => {
  const ahead = clockTrouble({ from: HOUR_MS, to: HOUR_MS + 5 }, 0);
  expect(ahead).toMatchObject({ code: 'clock_off', retryable: false });
  expect(ahead!.message).toContain('60 minutes ahead of that of the map');
  expect(ahead!.message).toContain('too early');
  const behind = clockTrouble({ from: 0, to: 5 }, HOUR_MS);
  expect(behind!.message).toContain('60 minutes behind that of the map');
  expect(behind!.message).toContain('too late');
});

it('a map that answers late is no clock that is off', () => {
  expect(clockTrouble({ from: 0, to: HOUR_MS }, HOUR_MS / 2)).toBeUndefined();
  expect(clockTrouble({ from: 1000, to: 1010 }, 0)).toBeUndefined();
});
