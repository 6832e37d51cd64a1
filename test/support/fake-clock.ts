import { onTestFinished, vi } from 'vitest';

/** From now on, time limits of this process pass as the test says, by `vi.advanceTimersByTimeAsync`. */
export function fakeClock(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
}
