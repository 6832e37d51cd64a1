import type { Benchmark } from '../harness/benchmark.js';
import { atLeast, atMost, greatestOf } from '../harness/goals.js';
import { measureCaches } from './caches.js';
import { simulateDeployments } from './deployments.js';
import { limitsFrom } from './limits.js';
import { EXPONENTS, MEAN_BYTES, PLANS } from './plan.js';

/**
 * How far it goes: 1 to 1,000 gateways, 10^6 to 10^11 files. The product's own decisions are driven
 * by seeded clocks and requests, its rows are written and measured, and what comes of it is
 * multiplied out.
 */
export const scaling: Benchmark = {
  durability: 'os',
  introduce() {
    const limits = limitsFrom(process.env.STEVEDORE_BENCH_LIMITS);
    const listed = Object.entries(limits).map(([name, value]) => `${name}=${value}`);
    return [
      `One simulation, the same one for the same seed; files are log-uniform around ${MEAN_BYTES / 1024} KiB, 2 to 56 KB. Rates are measured on this machine.`,
      `Assumptions and limits (STEVEDORE_BENCH_LIMITS=NAME=NUMBER,… changes them): ${listed.join(', ')}.`,
    ].join('\n');
  },
  parts: (scale) => {
    const plan = PLANS[scale];
    return {
      cache: {
        goals: [
          atMost(
            'cache.scaling',
            'hit ratios of ten times the files, from the yield at a tenth: at most {} off, the worst',
            0.03,
            greatestOf(EXPONENTS.map((exponent) => `cache.zipf${exponent}.scaling`)),
          ),
        ],
        run: (context) => measureCaches(context, plan),
      },
      deployments: {
        goals: [
          atLeast(
            'deployments.least-fill',
            'gateways that fill a trunk within a minute: trunks at least {%} full in the mean',
            0.999,
          ),
        ],
        run: (context) => simulateDeployments(context, plan),
      },
    };
  },
};
