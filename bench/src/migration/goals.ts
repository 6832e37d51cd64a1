import type { Figures } from '../harness/figures.js';
import { atLeast, atMost, type Goal, greatestOf, medianOf } from '../harness/goals.js';
import { ratioId } from './forecasting.js';
import { ACCESS_KIB, costRatioId } from './moving-cost.js';
import { besideId, gainId } from './real-servers.js';
import { HOLD_OUTS, type TraceName } from './traces.js';
import { throughputId, VARIANTS, type Variant } from './trade-off.js';

/** What forecasting is to reach: the paper's own ratios, and ours beyond them. */

const PAPER_RATIOS = { metadata: 0.78, smallFile: 0.53 } as const;
const MAX_PANEL_RATIO = 0.85;
const MIN_METADATA_SHARE = 0.95;

const panelRatios = (traces: readonly TraceName[]) =>
  greatestOf(traces.map((trace) => ratioId(trace, 'panel-vs-ba-esm')));

export const FORECAST_GOALS: readonly Goal[] = [
  ...(['metadata', 'smallFile'] as const).map((trace) =>
    atMost(
      ratioId(trace, 'ba-esm-vs-sesm'),
      `${trace}: MAE of BA-ESM at most ${PAPER_RATIOS[trace]} x that of the best SESM`,
      PAPER_RATIOS[trace],
      medianOf(ratioId(trace, 'ba-esm-vs-sesm')),
    ),
  ),
  atMost(
    'forecast.panel-vs-ba-esm',
    `the panel's MAE at most ${MAX_PANEL_RATIO} x that of BA-ESM, on both traces (the worse)`,
    MAX_PANEL_RATIO,
    panelRatios(['metadata', 'smallFile']),
  ),
  atMost(
    'forecast.hold-out.panel-vs-ba-esm',
    `the same on traces that it was not made with (the worst of ${HOLD_OUTS.length})`,
    MAX_PANEL_RATIO,
    panelRatios(HOLD_OUTS),
  ),
];

/** Of metadata throughput: with 16 small-file clients, over that with 1 just before or after. */
export function shareId(variant: Variant): string {
  return `trade-off.${variant}.metadata.c16-vs-c1`;
}

/** Neighbours in time: what slows the machine for a while slows both. */
export function addShares(figures: Figures): void {
  for (const variant of VARIANTS) {
    const [at1, at16] = [1, 16].map((clients) =>
      figures.values(throughputId(variant, 'metadata', clients)),
    ) as [readonly number[], readonly number[]];
    for (const [turn, value] of at16.entries()) {
      const one = at1[turn]!;
      // A turn that is too short for a busy machine answers nothing.
      if (one > 0) figures.add(shareId(variant), 'ratio', value / one);
    }
  }
}

export const TRADE_OFF_GOALS: readonly Goal[] = [
  atLeast(
    shareId('method'),
    `metadata throughput at 16 small-file clients at least ${MIN_METADATA_SHARE} x that at 1`,
    MIN_METADATA_SHARE,
    medianOf(shareId('method')),
  ),
];

const MIN_READ_GAINS = [
  { servers: 2, gain: 1.5 },
  { servers: 3, gain: 2 },
] as const;

const MIN_BESIDE = 0.8;

/** Figure 5, for slowed servers. */
export const SLOWED_GOALS: readonly Goal[] = MIN_READ_GAINS.flatMap(({ servers, gain }) => [
  atLeast(
    gainId(servers, 'metadata'),
    `${servers} slowed servers: metadata at least 1 x that with one`,
    1,
    medianOf(gainId(servers, 'metadata')),
  ),
  atLeast(
    gainId(servers, 'small-files'),
    `${servers} slowed servers: reads at least ${gain} x those with one`,
    gain,
    medianOf(gainId(servers, 'small-files')),
  ),
  // Figure 4 where there is room to move to.
  atLeast(
    besideId(servers),
    `${servers} slowed servers: reads beside metadata at least ${MIN_BESIDE} x those without it`,
    MIN_BESIDE,
    medianOf(besideId(servers)),
  ),
]);

export const MOVING_GOALS: readonly Goal[] = [
  atMost(
    'moving.failed',
    'no read or write failed or wrong in moves under load',
    0,
    (figures) => figures.summary('moving.failed').max + figures.summary('moving.wrong').max,
  ),
];

/** Its writer does not wait for a file to get to another group. */
const MAX_COST_RATIO = 1.5;

export const COST_GOALS: readonly Goal[] = [
  atMost(
    'cost.away.vs-here',
    `a write that makes a file go to another group costs at most ${MAX_COST_RATIO} x one that makes it a file of the storage, at every size (the worst)`,
    MAX_COST_RATIO,
    greatestOf(ACCESS_KIB.map((access) => costRatioId('away', access))),
  ),
];
