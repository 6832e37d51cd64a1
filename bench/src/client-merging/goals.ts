import { atLeast, atMost, type Goal, greatestOf, leastOf } from '../harness/goals.js';
import type { NamedServer } from '../servers/kinds.js';
import { fetchRatioId } from './fetching.js';
import { FETCH_CONCURRENCIES } from './paper.js';
import { trackersOf, type WriteSeries } from './plan.js';
import { fallId, ratioId } from './writing.js';

/**
 * What client merging is to reach: the paper's own ratios. Ratios are medians of the runs' own
 * ratios; the least of all concurrencies counts.
 */

const STORED_TIMES = 1.52;
const FETCH_TIMES = 1.28;
const MAX_FALL_PERCENT = 5;

export function writeGoals(
  { id, title, concurrencies }: WriteSeries,
  servers: readonly NamedServer[],
): readonly Goal[] {
  const where = trackersOf('fastdfs', servers) ? 'fastdfs' : 'ours';
  const fall = atMost(
    `write.${id}.fall`,
    `${title}: stored files a second fall by at most ${MAX_FALL_PERCENT} % from the fewest to the most at a time`,
    MAX_FALL_PERCENT,
    greatestOf([fallId(id, where)]),
  );
  if (!trackersOf('fastdfs-trunk', servers)) return [fall];
  return [
    atLeast(
      `write.${id}.own-merging`,
      `${title}: stored at least ${STORED_TIMES} x as fast as with FastDFS's own merging`,
      STORED_TIMES,
      leastOf(concurrencies.map((c) => ratioId(id, where, 'fastdfs-trunk', c))),
    ),
    fall,
  ];
}

export function fetchGoals(servers: readonly NamedServer[]): readonly Goal[] {
  const clusters = (['ours', 'fastdfs'] as const).filter(
    (where) => where === 'ours' || trackersOf(where, servers),
  );
  return clusters.map((where) =>
    atLeast(
      `fetch.${where}.nothing-local`,
      `fetches of merged files, nothing local, ${where === 'ours' ? 'our storage' : 'FastDFS'}: at least ${FETCH_TIMES} x no merging`,
      FETCH_TIMES,
      leastOf(FETCH_CONCURRENCIES.map((c) => fetchRatioId('nothing', where, c))),
    ),
  );
}
