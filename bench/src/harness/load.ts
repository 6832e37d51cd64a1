import { settled } from './waiting.js';

/**
 * The load: so many loops at a time, each beginning the next operation when its
 * last one has ended (a closed loop, as the papers' clients are).
 */

export interface Load {
  readonly operations: number;
  readonly concurrency: number;
  /** No operation begins later than this; default: all of them are done. */
  readonly maxSeconds?: number;
}

export interface LoadResult {
  /** Operations that were begun, and are done. */
  readonly operations: number;
  readonly seconds: number;
}

/** Rejects with the first failure, once the operations under way have ended. */
export async function drive(
  { operations, concurrency, maxSeconds = Infinity }: Load,
  operation: (index: number) => Promise<void>,
): Promise<LoadResult> {
  const start = performance.now();
  const end = start + maxSeconds * 1000;
  let next = 0;
  let failed = false;
  const loop = async () => {
    while (next < operations && !failed && performance.now() < end) {
      const index = next;
      next += 1;
      try {
        await operation(index);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await settled(Array.from({ length: concurrency }, loop));
  return { operations: next, seconds: (performance.now() - start) / 1000 };
}
