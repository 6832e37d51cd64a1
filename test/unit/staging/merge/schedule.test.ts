import { describe, expect, test } from 'vitest';
import { decideMerge, MAX_WAIT_MS } from '../../../../packages/staging/dist/merge/schedule.js';

const QUIET = {
  now: 100_000,
  waitingBytes: 0,
  waitingFiles: 0,
  oldestStagedAt: undefined,
  targetBytes: 1_000_000,
  maxFiles: 1000,
  maxAgeMs: 60_000,
  short: false,
};

describe('merge schedule', () => {
  test('waits while there is nothing', () => {
    for (const short of [false, true]) {
      expect(decideMerge({ ...QUIET, short })).toEqual({ action: 'wait', waitMs: MAX_WAIT_MS });
    }
  });

  test('merges once there is 1.25 times the target to choose from', () => {
    const waiting = { ...QUIET, waitingFiles: 10, oldestStagedAt: 99_000 };
    expect(decideMerge({ ...waiting, waitingBytes: 1_249_999 }).action).toBe('wait');
    const full = decideMerge({ ...waiting, waitingBytes: 1_250_000 });
    expect(full).toEqual({ action: 'merge', reason: 'full' });
    expect(decideMerge({ ...waiting, waitingFiles: 1250 })).toEqual({
      action: 'merge',
      reason: 'full',
    });
  });

  test('lets no file wait longer than the limit', () => {
    const old = { ...QUIET, waitingFiles: 1, waitingBytes: 10, oldestStagedAt: 40_000 };
    expect(decideMerge(old)).toEqual({ action: 'merge', reason: 'age' });
    const younger = decideMerge({ ...old, oldestStagedAt: 40_100 });
    expect(younger).toEqual({ action: 'wait', waitMs: 100 });
  });

  test('a clock that is set back far makes no file wait until it has caught up', () => {
    const waiting = { ...QUIET, now: 1_000_000, waitingFiles: 1, waitingBytes: 1 };
    const ahead = (ms: number) =>
      decideMerge({ ...waiting, oldestStagedAt: waiting.now + ms }).action;
    expect(ahead(QUIET.maxAgeMs)).toBe('wait');
    expect(ahead(QUIET.maxAgeMs + 1)).toBe('merge');
  });

  test('packs what is there when room is short', () => {
    const short = {
      ...QUIET,
      short: true,
      waitingFiles: 1,
      waitingBytes: 1,
      oldestStagedAt: 99_999,
    };
    expect(decideMerge(short)).toEqual({ action: 'merge', reason: 'space' });
  });
});
