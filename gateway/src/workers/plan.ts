import { availableParallelism } from 'node:os';
import type { GatewayOptions } from '../options.js';

/** Plans the number of workers, the directories of each, and its share of memory and disk. */

/** From the option `workers`: a number, or `auto` for one per core. */
export function workerCount(workers: string): number {
  return workers === 'auto' ? availableParallelism() : Number(workers);
}

/**
 * The directories of each worker, its own first. Directories left by an earlier start with more
 * workers are divided among all.
 */
export function assignDirectories(workers: number, found: readonly number[]): number[][] {
  const plan = Array.from({ length: workers }, (_, index) => [index + 1]);
  const left = found.filter((number) => number > workers);
  for (const [index, number] of left.entries()) plan[index % workers]?.push(number);
  return plan;
}

/** Divides what the machine has once: memory, disk space, and the rate of the scrub. */
const DIVIDED = [
  ...(['containerSize', 'retain', 'derivedSize'] as const),
  ...(['cacheSize', 'downloadBuffer', 'scrubRate'] as const),
];

export function shareOf(options: GatewayOptions, workers: number): GatewayOptions {
  const shares = DIVIDED.map((name) => [name, Math.floor(options[name] / workers)] as const);
  return { ...options, ...Object.fromEntries(shares) };
}
