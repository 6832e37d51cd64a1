import type { Observation } from './forecast/forecaster.js';
import { baEsm, type SmoothingState } from './forecast/smoothing.js';
import { efficiency, type Load, loadToMove, smallFileAllowance } from './load.js';
import type { Parameters } from './parameters.js';
import { type AccessedFile, type Selection, selectByProfit } from './selection.js';
import { globalThreshold } from './threshold.js';

/**
 * All that a metadata server decides at the end of an interval: the forecasts, the threshold, the
 * load that has to move, the files that carry it, and the small-file load to allow. Pure: the
 * daemon and the benchmarks call the same function.
 */

/** What the scheduler counts of a class in an interval. */
export interface Counted {
  readonly servedBytes: number;
  /** At the end of the interval. */
  readonly waitingBytes: number;
  /** How long the requests that were served waited for their turn, all together. */
  readonly waitedMs: number;
  /** And how long they then took. */
  readonly ranMs: number;
}

export interface ClassState extends SmoothingState {
  /** At the end of the interval before. */
  readonly waitingBytes: number;
}

export interface PolicyState {
  readonly metadata: ClassState;
  readonly smallFile: ClassState;
  /** Th_global. */
  readonly thresholdBytes: number;
}

export interface IntervalReport {
  readonly metadata: Counted;
  readonly smallFile: Counted;
  /** Used share of the store, 0 to 1. */
  readonly usedShare: number;
  /** High load shrinks the threshold no further than this. Default 0. */
  readonly leastByLoadBytes?: number;
  /** Files that were read or written in the interval. */
  readonly accessed: readonly AccessedFile[];
}

export interface IntervalDecision {
  readonly state: PolicyState;
  /** L'_meta and L'_io of the interval that ended. */
  readonly load: Load;
  /** The same of the coming interval. */
  readonly forecast: Load;
  /** ML; 0: nothing has to move. */
  readonly loadToMoveBytes: number;
  /** Small-file load allowed in the coming interval; undefined: not limited. */
  readonly allowedSmallFileBytes: number | undefined;
  readonly selection: Selection;
}

const NEW: ClassState = { forecastBytes: undefined, waitingBytes: 0 };

export function startPolicy(thresholdBytes: number): PolicyState {
  return { metadata: NEW, smallFile: NEW, thresholdBytes };
}

/**
 * L' (section 3.1): the load of a class in the interval, if the other class had not been there. That
 * is what was served and what still waits; or, if it is more, what was served in the time at the
 * disk alone: a client that waits for an answer sends its next request that much later.
 */
export function loadAlone(counted: Counted, capacityBytes: number): number {
  const { servedBytes, waitingBytes, waitedMs, ranMs } = counted;
  const unhurried = ranMs > 0 ? (servedBytes * (waitedMs + ranMs)) / ranMs : 0;
  return Math.min(Math.max(servedBytes + waitingBytes, unhurried), capacityBytes);
}

/**
 * What BA-ESM is fed. O is L'. TD̂ is what came into the queue, as TD is what left it, so that their
 * ratio is around one under steady load (section 5.2). What waits at a single moment is usually far
 * less than what an interval serves: the equation would take every moment for the end of a burst,
 * and forecast nothing.
 */
export function observationOf(
  counted: Counted,
  waitedBytes: number,
  capacityBytes: number,
): Observation {
  const { servedBytes, waitingBytes } = counted;
  return {
    loadBytes: loadAlone(counted, capacityBytes),
    servedBytes,
    queuedBytes: Math.max(0, servedBytes + waitingBytes - waitedBytes),
  };
}

export function decideInterval(
  state: PolicyState,
  report: IntervalReport,
  capacityBytes: number,
  parameters: Parameters,
): IntervalDecision {
  const forecaster = baEsm(parameters, capacityBytes);
  const step = (before: ClassState, counted: Counted) => {
    const observed = observationOf(counted, before.waitingBytes, capacityBytes);
    const { state: after, bytes } = forecaster.step(before, observed);
    const { waitingBytes } = counted;
    return { loadBytes: observed.loadBytes, bytes, state: { ...after, waitingBytes } };
  };
  const metadata = step(state.metadata, report.metadata);
  const smallFile = step(state.smallFile, report.smallFile);
  const load = { metadataBytes: metadata.loadBytes, smallFileBytes: smallFile.loadBytes };
  const forecast = { metadataBytes: metadata.bytes, smallFileBytes: smallFile.bytes };
  // Metadata is served first, so no queue shows its bursts, and its forecast lags behind them.
  const metadataBytes = Math.max(load.metadataBytes, forecast.metadataBytes);
  const expected = { ...forecast, metadataBytes };
  const loadToMoveBytes = loadToMove(expected, capacityBytes, parameters.efficiencyMark);
  const observed = {
    metadataBytes: report.metadata.servedBytes,
    smallFileBytes: report.smallFile.servedBytes,
  };
  const conditions = { ...report, loadShare: efficiency(observed, capacityBytes) };
  return {
    state: {
      metadata: metadata.state,
      smallFile: smallFile.state,
      thresholdBytes: globalThreshold(state.thresholdBytes, conditions, parameters),
    },
    load,
    forecast,
    loadToMoveBytes,
    allowedSmallFileBytes: isThere(report.metadata)
      ? smallFileAllowance(metadataBytes, capacityBytes, parameters)
      : undefined,
    selection: selectByProfit(report.accessed, loadToMoveBytes, parameters.maximumSelectedFiles),
  };
}

/** Without metadata there is nothing to protect, but its forecast may take long to reach zero. */
function isThere({ servedBytes, waitingBytes }: Counted): boolean {
  return servedBytes > 0 || waitingBytes > 0;
}
