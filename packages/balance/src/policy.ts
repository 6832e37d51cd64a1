import type { Forecaster, Observation } from './forecast/forecaster.js';
import { efficiency, type Load, loadToMove, smallFileAllowance } from './load.js';
import type { Parameters } from './parameters.js';
import { type AccessedFile, type Selection, selectByProfit } from './selection.js';
import { globalThreshold } from './threshold.js';

/**
 * What a metadata server decides at the end of an interval, all of it, from what it
 * observed: the forecasts, the threshold for the long term, and for the short term the
 * load that has to go, the files that carry it, and how much small-file load is let
 * through. Pure: daemon and replay call the same function.
 */

export interface PolicyState<S> {
  readonly metadata: S;
  readonly smallFile: S;
  /** Th_global. */
  readonly thresholdBytes: number;
}

export interface IntervalReport {
  /** As they were served: Eq. 13 takes the load that there was. */
  readonly metadata: Observation;
  readonly smallFile: Observation;
  /**
   * L'_meta and L'_io, what would have been served of either without the other: what the
   * forecasts are of. Default: what was served.
   */
  readonly alone?: Load;
  /** What small files may have, as metadata has borne it; undefined: not known. */
  readonly bearableBytes?: number | undefined;
  /** The largest bandwidth in theory, which P_ld is a share of. Default: B_logic. */
  readonly bandwidthBytes?: number;
  /** Used share of the store, 0 to 1. */
  readonly usedShare: number;
  /** Files of this server that were read or written in the interval. */
  readonly accessed: readonly AccessedFile[];
}

export interface IntervalDecision<S> {
  readonly state: PolicyState<S>;
  /** The coming interval's load, per class. */
  readonly forecast: Load;
  /** ML; 0: nothing has to go. */
  readonly loadToMoveBytes: number;
  /** Small-file load that is let through in the coming interval; undefined: all of it. */
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
  const conditions = { usedShare: report.usedShare, loadShare };
  const allowance = {
    metadataBytes: forecast.metadataBytes,
    hasMetadata: isThere(report.metadata),
    bearableBytes: report.bearableBytes,
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
