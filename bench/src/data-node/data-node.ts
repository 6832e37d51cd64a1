import type { Benchmark } from '../harness/benchmark.js';
import { addLookUpGoals, measureLookUps, showLookUps } from './look-ups.js';
import { FULL, QUICK } from './plan.js';

/**
 * The data node: what the cache of whole files and the co-location of files that are
 * read together are worth, after the paper's figures 6 to 9.
 */
export const dataNode: Benchmark = {
  durability: 'sync; only reads are measured, but for the mixed load',
  async run(context) {
    const plan = context.quick ? QUICK : FULL;
    await measureLookUps(context, plan);
    showLookUps(context);
    addLookUpGoals(context.figures);
  },
};
