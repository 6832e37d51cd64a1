import { invalidOption } from './options.js';
import type { FlushOptions } from './types.js';

/** How long `flush` waits, for any store. */
const DEFAULT_MS = 60_000;
const MAX_MS = 3_600_000;

/** Throws `invalid_option`. */
export function flushTimeoutOf({ timeoutMs = DEFAULT_MS }: FlushOptions): number {
  if (Number.isInteger(timeoutMs) && timeoutMs >= 1 && timeoutMs <= MAX_MS) return timeoutMs;
  throw invalidOption(`timeoutMs: a whole number from 1 to ${MAX_MS} is needed`);
}
