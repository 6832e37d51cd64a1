import { atLeast, atMost, type Goal, greatestOf, medianOf } from '../harness/goals.js';
import { EXPONENTS } from './plan.js';
import { type Compared, realId } from './real.js';

/** What the simulator is to be right about. */

export function scalingId(exponent: number): string {
  return `cache.zipf${exponent}.scaling`;
}

export const CACHE_GOALS: readonly Goal[] = [
  atMost(
    'scaling.cache',
    'hit ratios of ten times the files, from the yield at a tenth: at most 0.03 off, the worst',
    0.03,
    greatestOf(EXPONENTS.map(scalingId)),
  ),
];

export const LEAST_FILL_ID = 'deployments.least-fill';

export const DEPLOYMENT_GOALS: readonly Goal[] = [
  atLeast(
    'scaling.fill',
    'gateways that fill a trunk within a minute: trunks at least 99.9 % full in the mean',
    0.999,
    medianOf(LEAST_FILL_ID),
  ),
];

const TOLERANCES: readonly (readonly [Compared, string, number])[] = [
  ['trunks', 'trunks in FastDFS', 0.1],
  ['fill', 'how full they are', 0.1],
  ['filemap-bytes', 'bytes of the FileMap a file', 0.15],
  ['map-rows', 'rows of the map', 0.001],
  ['map-bytes', 'bytes of the map a file', 0.15],
  ['hit-ratio', 'hit ratio of reads', 0.1],
];

export const REAL_GOALS: readonly Goal[] = TOLERANCES.map(([what, text, tolerance]) =>
  atMost(
    `scaling.real.${what}`,
    `${text}: predicted and measured at most ${100 * tolerance} % apart`,
    tolerance,
    medianOf(realId(what, 'difference')),
  ),
);
