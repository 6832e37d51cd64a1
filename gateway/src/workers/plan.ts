import { availableParallelism } from 'node:os';
import type { GatewayOptions } from '../options.js';

/** How many workers there are, which directories each has, and its share of memory and disk. */

/** Of the option `workers`: a number, or `auto` for one per core. */
export function workerCount(workers: string): number {
  return workers === 'auto' ? availableParallelism() : Number(workers);
}

/**
 * The directories of each worker, its own first: those that an earlier start with more workers
 * has left are dealt out among all.
 */
export function assignDirectories(workers: number, found: readonly number[]): number[][] {
  const plan = Array.from({ length: workers }, (_, index) => [index + 1]);
  const left = found.filter((number) => number > workers);
  for (const [index, number] of left.entries()) plan[index % workers]!.push(number);
  return plan;
}

/** What is there once is divided: memory, room on the disk, and the rate of the scrub. */
const DIVIDED = ['containerSize', 'retain', 'cacheSize', 'downloadBuffer', 'scrubRate'] as const;

export function shareOf(options: GatewayOptions, workers: number): GatewayOptions {
  const shares = DIVIDED.map((name) => [name, Math.floor(options[name] / workers)] as const);
  return { ...options, ...Object.fromEntries(shares) };
}
