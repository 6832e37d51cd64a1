import { onTestFinished, vi } from 'vitest';

/** From now on, time limits of this process pass as the test says, by `vi.advanceTimersByTimeAsync`. */
export function fakeClock(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
}

export const HOUR_MS = 3_600_000;

/** The time of this process, which goes on at once by as much as the test says. */
export function movableTime(): (ms: number) => void {
  const real = Date.now;
  let ahead = 0;
  const now = vi.spyOn(Date, 'now').mockImplementation(() => real() + ahead);
  onTestFinished(() => now.mockRestore());
  return (ms) => {
    ahead += ms;
  };
}
