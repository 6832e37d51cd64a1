import type { Figures } from '../harness/figures.js';
import { figureId } from './measuring.js';
import { PAPER_KNEE_MEBIBYTES } from './paper.js';
import { type Plan, THREADS } from './plan.js';
import { DISKS } from './settings.js';
import { sizeOf } from './sizes.js';

/** What the data node is to reach. Ratios are medians of the runs' own ratios. */

const MIN_GAIN = 1.5;
const MIN_USED_SHARE = 0.6;

export function addDataNodeGoals(figures: Figures, plan: Plan): void {
  const threads = plan.threads.filter((count) => count >= THREADS);
  for (const disk of DISKS) {
    const of = (series: 'read' | 'mixed', count: number, what: string): number =>
      figures.summary(figureId({ series, disk, setting: 'both', at: `t${count}` }, what)).median;
    for (const series of ['read', 'mixed'] as const) {
      const value = Math.min(...threads.map((count) => of(series, count, 'vs-neither')));
      figures.addGoal({
        id: `${series}.${disk}.both.vs-neither`,
        goal: `${series === 'read' ? 'reads' : '20 reads for a write'}, ${disk} disk: both at least ${MIN_GAIN} x neither, from ${THREADS} threads on (the least)`,
        value,
        met: value >= MIN_GAIN,
      });
    }
    const used = of('read', THREADS, 'ahead.used');
    figures.addGoal({
      id: `read.${disk}.both.ahead.used`,
      goal: `${disk} disk: over ${MIN_USED_SHARE * 100} % of the bytes read ahead are asked for`,
      value: used,
      met: used > MIN_USED_SHARE,
    });
    const gain = (mebibytes: number): number =>
      figures.summary(
        figureId({ series: 'size', disk, setting: 'cache', at: sizeOf(mebibytes) }, 'vs-neither'),
      ).median;
    const last = plan.cacheMebibytes.at(-1)!;
    const value = gain(last) / gain(PAPER_KNEE_MEBIBYTES);
    figures.addGoal({
      id: `size.${disk}.cache.growth`,
      goal: `${disk} disk: the gain still grows past ${PAPER_KNEE_MEBIBYTES} MiB (gain at ${last} MiB as a multiple of that)`,
      value,
      met: value > 1,
    });
  }
}
