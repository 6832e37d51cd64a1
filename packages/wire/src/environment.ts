import { randomInt } from 'node:crypto';

/** Clock and randomness of the daemons, passed in so that a test can hold both. */
export interface Environment {
  /** Unix milliseconds. */
  now(): number;
  /** Milliseconds of the monotonic clock: for how long something has lasted. */
  uptimeMs(): number;
  /** A random integer from 0 to below `limit`, which is at most 2^32. */
  random(limit: number): number;
}

export const systemEnvironment: Environment = {
  now: () => Date.now(),
  uptimeMs: () => performance.now(),
  random: (limit) => randomInt(limit),
};

export function nowSeconds(environment: Environment): number {
  return Math.floor(environment.now() / 1000);
}

/** `count` random decimal digits. */
export function randomDigits(environment: Environment, count: number): string {
  return Array.from({ length: count }, () => environment.random(10)).join('');
}
