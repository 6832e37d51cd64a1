import { assertCapacity, clamp, type Forecaster, type Observation } from './forecaster.js';
import { type LeastSquaresState, learn, predict, startLeastSquares } from './least-squares.js';
import { believed, judge, type Members, startMembers } from './members.js';
import { baEsm, type SmoothingState, sesm, smoothed } from './smoothing.js';

/**
 * Our forecaster. Served bytes show what the server could do, not what clients wanted; smoothing
 * them forecasts the disk. This one forecasts the *demand*, and derives the load from it and from
 * the queue:
 *
 *   A_i = O_i + W_i − W_{i−1}            arrivals: served, plus the growth of the queue
 *   F   = min(B_logic, W_{i−1} + h · Â)  the queue, then arrivals that are served at once
 *
 * There are two panels of simple forecasts. In each, the member with the smallest recent error is
 * believed. The first gives Â from the last demand, smoothed ones, a median (deaf to single
 * bursts), and the demand of p intervals ago for every p up to a bound (loads repeat: checkpoints,
 * timers, crawlers). The second gives F from the line above with a learned h; the queue alone; a
 * linear relation of queue, last load, last demands and Â, learned by least squares (a scheduler
 * may hold requests back in its own way); and SESM and BA-ESM. So F is never much worse than the
 * best of them, and nothing has to be tuned to a trace.
 *
 * An interval costs about a thousand additions; the state is a few hundred numbers.
 */

export interface PanelState {
  /** Recent demands, the latest last; enough for the longest period and the median. */
  readonly demands: readonly number[];
  readonly smoothedDemands: readonly (number | undefined)[];
  readonly demandMembers: Members;
  readonly waitingBytes: number;
  /** h. */
  readonly freshShare: number | undefined;
  readonly relation: LeastSquaresState;
  /** The last features given to the relation. */
  readonly features: readonly number[] | undefined;
  readonly observers: readonly SmoothingState[];
  readonly loadMembers: Members;
}

/** Longest period to look for, in intervals. */
const MAXIMUM_PERIOD = 64;
/** Weight of an error one interval ago relative to one now. */
const MEMORY = 0.97;
const DEMAND_ALPHAS = [0.1, 0.3, 0.6];
const MEDIAN_SPAN = 15;
const FRESH_ALPHA = 0.2;
const FEATURES = 6;
const RELATION_MEMORY = 0.995;
/** Above this share of B_logic an interval was cut off and does not show the demand. */
const FULL = 0.98;

/** `capacityBytes`: B_logic for one interval. */
export function panel({ capacityBytes }: { readonly capacityBytes: number }) {
  assertCapacity(capacityBytes);
  const observers = [
    sesm(0.1, capacityBytes),
    sesm(0.6, capacityBytes),
    baEsm({ alpha: 0.1, low: 0.9, high: 1.1, capacityBytes }),
  ];

  const forecaster: Forecaster<PanelState> = {
    name: 'panel',
    initial: {
      demands: [],
      smoothedDemands: DEMAND_ALPHAS.map(() => undefined),
      demandMembers: startMembers(DEMAND_ALPHAS.length + 1 + MAXIMUM_PERIOD),
      waitingBytes: 0,
      freshShare: undefined,
      relation: startLeastSquares(FEATURES),
      features: undefined,
      observers: observers.map(({ initial }) => initial),
      loadMembers: startMembers(3 + observers.length),
    },
    step(state, observed) {
      const { servedBytes, waitingBytes } = observed;
      const demand = Math.max(0, servedBytes + waitingBytes - state.waitingBytes);
      const demands = [...state.demands, demand].slice(-MAXIMUM_PERIOD);
      const smoothedDemands = state.smoothedDemands.map((before, index) =>
        smoothed(DEMAND_ALPHAS[index]!, demand, before),
      );
      const demandMembers = judge(state.demandMembers, demand, MEMORY, [
        ...smoothedDemands,
        middle(demands.slice(-MEDIAN_SPAN)),
        ...Array.from({ length: MAXIMUM_PERIOD }, (_, index) => demands.at(-1 - index)),
      ]);
      const expected = believed(demandMembers) ?? demand;

      const freshShare = learntShare(state, observed, demand, capacityBytes);
      const relation = learntRelation(state, servedBytes, capacityBytes);
      const features = [
        1,
        waitingBytes / capacityBytes,
        servedBytes / capacityBytes,
        demand / capacityBytes,
        (demands.at(-2) ?? demand) / capacityBytes,
        expected / capacityBytes,
      ];
      const steps = observers.map((each, index) => each.step(state.observers[index]!, observed));
      const limited = (bytes: number) => clamp(bytes, 0, capacityBytes);
      const loadMembers = judge(state.loadMembers, servedBytes, MEMORY, [
        limited(waitingBytes + (freshShare ?? 1) * expected),
        limited(waitingBytes),
        limited(predict(relation, features) * capacityBytes),
        ...steps.map(({ bytes }) => bytes),
      ]);
      const bytes = believed(loadMembers) ?? limited(demand);
      return {
        state: {
          demands,
          smoothedDemands,
          demandMembers,
          waitingBytes,
          freshShare,
          relation,
          features,
          observers: steps.map((each) => each.state),
          loadMembers,
        },
        bytes,
      };
    },
  };
  return forecaster;
}

/** h: share of the demand that was served beyond what had waited. */
function learntShare(
  { waitingBytes, freshShare }: PanelState,
  { servedBytes }: Observation,
  demand: number,
  capacityBytes: number,
): number | undefined {
  if (demand <= 0 || servedBytes >= FULL * capacityBytes) return freshShare;
  const fresh = clamp((servedBytes - waitingBytes) / demand, 0, 1);
  return smoothed(FRESH_ALPHA, fresh, freshShare);
}

function learntRelation(
  { relation, features }: PanelState,
  servedBytes: number,
  capacityBytes: number,
): LeastSquaresState {
  if (features === undefined || servedBytes >= FULL * capacityBytes) return relation;
  return learn(relation, features, servedBytes / capacityBytes, RELATION_MEMORY);
}

function middle(values: readonly number[]): number | undefined {
  if (values.length === 0) return undefined;
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}
