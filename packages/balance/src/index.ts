export {
  type BearingBounds,
  bearableBytes,
  keptShare,
  type Seen,
  type ServedIn,
} from './bearing.js';
export { type BurstAwareOptions, baEsm, burstRatio } from './forecast/ba-esm.js';
export { forecastError, meanAbsoluteError } from './forecast/error.js';
export {
  type Forecast,
  type Forecaster,
  forecastAll,
  type Observation,
} from './forecast/forecaster.js';
export { type PanelOptions, type PanelState, panel } from './forecast/panel.js';
export { type SmoothingState, sesm } from './forecast/sesm.js';
export { heated, isWorthRow } from './heat.js';
export {
  type Allowance,
  allowedShare,
  allowedSmallFileBytes,
  carried,
  efficiency,
  type Load,
  loadToMove,
  remainder,
  smallFileAllowance,
  smallFileRoom,
  spareLoad,
} from './load.js';
export { defaultParameters, type Parameters, parameters } from './parameters.js';
export {
  decideInterval,
  type IntervalDecision,
  type IntervalReport,
  type PolicyState,
  startPolicy,
} from './policy.js';
export {
  type AccessedFile,
  migrationProfit,
  type Selection,
  type Split,
  selectByProfit,
  splitByRoom,
} from './selection.js';
export {
  type Assignment,
  assignTargets,
  chooseTarget,
  type Overload,
  type ServerLoad,
} from './targets.js';
export { type Conditions, fileThreshold, globalThreshold } from './threshold.js';
