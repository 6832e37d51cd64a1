import { type Benchmark, type BenchmarkContext, remarkOn } from '../harness/benchmark.js';
import { measureCaches } from './caches.js';
import { simulateDeployments } from './deployments.js';
import { CACHE_GOALS, DEPLOYMENT_GOALS, REAL_GOALS } from './goals.js';
import { limitsFrom } from './limits.js';
import { showReal } from './output.js';
import { MEAN_BYTES, PLANS } from './plan.js';
import { compareWithReal } from './real.js';

/**
 * How far it goes: 1 to 1,000 gateways, 10^6 to 10^11 files. The product's own decisions are driven
 * by seeded clocks and requests, its rows are written and measured, and what comes of it is
 * multiplied out. `real` holds the same simulator against a real store.
 */
export const scaling: Benchmark = {
  durability: 'os',
  introduce,
  parts: (scale) => {
    const plan = PLANS[scale];
    return {
      cache: { goals: CACHE_GOALS, run: (context) => measureCaches(context, plan) },
      deployments: {
        goals: DEPLOYMENT_GOALS,
        run: (context) => simulateDeployments(context, plan),
      },
      real: {
        goals: REAL_GOALS,
        run: async (context) => {
          await compareWithReal(context, plan.real);
          showReal(context, plan.real.files);
        },
      },
    };
  },
};

function introduce({ scale }: BenchmarkContext): string {
  const limits = limitsFrom(process.env.STEVEDORE_BENCH_LIMITS);
  const listed = Object.entries(limits).map(([name, value]) => `${name}=${value}`);
  return [
    `One simulation${remarkOn(scale)}, the same one for the same seed; files are log-uniform around ${MEAN_BYTES / 1024} KiB, 2 to 56 KB. Rates are measured on this machine.`,
    `Assumptions and limits (STEVEDORE_BENCH_LIMITS=NAME=NUMBER,… changes them): ${listed.join(', ')}.`,
  ].join('\n');
}
