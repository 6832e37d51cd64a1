import type { Figures } from '../harness/figures.js';
import { GROWTH } from './memory.js';
import { GOAL_CONNECTIONS, SIZES } from './plan.js';
import { ratioId } from './transfers.js';

/** What the client is to reach. Ratios are medians of the runs' own ratios. */

const UPLOAD_TIMES = 3;
const MEMORY_TIMES = 1.1;

/**
 * Judged where no disk takes part: what a synced upload waits for is the same for
 * both clients, and says nothing about either.
 */
export function addClientGoals(figures: Figures): void {
  const uploads = Math.min(
    ...SIZES.map(
      (size) =>
        figures.summary(ratioId('upload', 'memory', size, GOAL_CONNECTIONS, 'vs-fdfs')).median,
    ),
  );
  figures.addGoal({
    id: `upload.c${GOAL_CONNECTIONS}.vs-fdfs`,
    goal: `uploads at ${GOAL_CONNECTIONS} connections: at least ${UPLOAD_TIMES} x fdfs, against the cluster in memory (the least of the sizes)`,
    value: uploads,
    met: uploads >= UPLOAD_TIMES,
  });
  const { median: growth } = figures.summary(GROWTH);
  figures.addGoal({
    id: GROWTH,
    goal: `heap after the last operation: at most ${MEMORY_TIMES} x that after a tenth of them`,
    value: growth,
    met: growth <= MEMORY_TIMES,
  });
}
