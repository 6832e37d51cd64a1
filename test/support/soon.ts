import { vi } from 'vitest';

/** Resolves once `check` does not throw; rejects with its last error after half a minute. */
export function soon<Result>(check: () => Result | Promise<Result>): Promise<Result> {
  return vi.waitFor(check, { timeout: 30_000, interval: 20 });
}
