import type { Forecaster, Observation } from './forecast/forecaster.js';
import { efficiency, type Load, loadToMove, smallFileAllowance } from './load.js';
import type { Parameters } from './parameters.js';
import { type AccessedFile, type Selection, selectByProfit } from './selection.js';
import { globalThreshold } from './threshold.js';

/**
 * All that a metadata server decides at the end of an interval: the forecasts, the threshold, the
 * load that has to move, the files that carry it, and the small-file load to allow. Pure: the
 * daemon and the benchmark's replay call the same function.
 */

export interface PolicyState<S> {
  readonly metadata: S;
  readonly smallFile: S;
  /** Th_global. */
  readonly thresholdBytes: number;
}

export interface IntervalReport {
  /** What was served; Eq. 13 uses the actual load. */
  readonly metadata: Observation;
  readonly smallFile: Observation;
  /**
   * L'_meta and L'_io: what each would be served without the other. The forecasts predict these.
   * Default: what was served.
   */
  readonly alone?: Load;
  /** Small-file load that metadata tolerates; undefined if not known. */
  readonly sustainableBytes?: number | undefined;
  /** The disk's bandwidth, of which P_ld is a share. Default: B_logic. */
  readonly bandwidthBytes?: number;
  /** Used share of the store, 0 to 1. */
  readonly usedShare: number;
  /** High load shrinks the threshold no further than this. Default 0. */
  readonly leastByLoadBytes?: number;
  /** Files that were read or written in the interval. */
  readonly accessed: readonly AccessedFile[];
}

export interface IntervalDecision<S> {
  readonly state: PolicyState<S>;
  /** Load of the coming interval, per class. */
  readonly forecast: Load;
  /** ML; 0: nothing has to move. */
  readonly loadToMoveBytes: number;
  /** Small-file load allowed in the coming interval; undefined: not limited. */
  readonly allowedSmallFileBytes: number | undefined;
  readonly selection: Selection;
}

export function startPolicy<S>(forecaster: Forecaster<S>, thresholdBytes: number): PolicyState<S> {
  return { metadata: forecaster.initial, smallFile: forecaster.initial, thresholdBytes };
}

export function decideInterval<S>(
  state: PolicyState<S>,
  report: IntervalReport,
  forecaster: Forecaster<S>,
  capacityBytes: number,
  parameters: Parameters,
): IntervalDecision<S> {
  const observed = {
    metadataBytes: report.metadata.servedBytes,
    smallFileBytes: report.smallFile.servedBytes,
  };
  const alone = report.alone ?? observed;
  const metadata = forecaster.step(state.metadata, {
    ...report.metadata,
    servedBytes: alone.metadataBytes,
  });
  const smallFile = forecaster.step(state.smallFile, {
    ...report.smallFile,
    servedBytes: alone.smallFileBytes,
  });
  const forecast = { metadataBytes: metadata.bytes, smallFileBytes: smallFile.bytes };
  const loadToMoveBytes = loadToMove(forecast, capacityBytes, parameters.efficiencyMark);
  const loadShare = efficiency(observed, report.bandwidthBytes ?? capacityBytes);
  const conditions = { ...report, loadShare };
  const allowance = {
    metadataBytes: forecast.metadataBytes,
    hasMetadata: isThere(report.metadata),
    sustainableBytes: report.sustainableBytes,
  };
  return {
    state: {
      metadata: metadata.state,
      smallFile: smallFile.state,
      thresholdBytes: globalThreshold(state.thresholdBytes, conditions, parameters),
    },
    forecast,
    loadToMoveBytes,
    allowedSmallFileBytes: smallFileAllowance(allowance, capacityBytes, parameters),
    selection: selectByProfit(report.accessed, loadToMoveBytes, parameters.maximumSelectedFiles),
  };
}

function isThere({ servedBytes, waitingBytes }: Observation): boolean {
  return servedBytes > 0 || waitingBytes > 0;
}
