import { setTimeout as sleep } from 'node:timers/promises';
import { cpuUsed } from './process-cpu.js';

/**
 * The load: so many loops at a time, each beginning the next operation when its
 * last one has ended (a closed loop, as the papers' clients are).
 */

export interface Load {
  /** Default: as many as there is time for. */
  readonly operations?: number;
  readonly concurrency: number;
  /** No loop begins another operation later than this; default: all of them are done. */
  readonly maxSeconds?: number | undefined;
}

/** Time, and CPU of this process. */
export interface Span {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

export interface Driven extends Span {
  /** Operations that were begun, and are done. */
  readonly operations: number;
}

/** The time since it was called. */
export function startClock(): () => Span {
  const start = performance.now();
  const before = cpuUsed();
  return () => ({
    seconds: (performance.now() - start) / 1000,
    cpuSeconds: cpuUsed() - before,
  });
}

/** Rejects with the first failure, once the operations under way have ended. */
export async function drive(
  { operations = Infinity, concurrency, maxSeconds = Infinity }: Load,
  operation: (index: number) => Promise<unknown>,
): Promise<Driven> {
  const clock = startClock();
  const end = performance.now() + maxSeconds * 1000;
  let next = 0;
  let failed = false;
  const loop = async () => {
    // Each begins one whatever the time is: a process that had to wait would have done nothing.
    for (let isFirst = true; next < operations && !failed; isFirst = false) {
      if (!isFirst && performance.now() >= end) return;
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
  return { operations: next, ...clock() };
}

/** In their order, then the other way round: who comes first changes with the turn. */
export function inTurn<T>(turn: number, items: readonly T[]): readonly T[] {
  return turn % 2 === 0 ? items : items.toReversed();
}

/** As Promise.all, but rejects only when none of them is under way any more. */
export async function settled<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const outcomes = await Promise.allSettled(promises);
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  });
}

const POLL_MS = 20;
const DEFAULT_LIMIT_MS = 60_000;

/** Throws where it is not so in time: a benchmark that waits for ever has no report. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  limitMs = DEFAULT_LIMIT_MS,
): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`${what}: not within ${limitMs / 1000} s`);
    await sleep(POLL_MS);
  }
}
