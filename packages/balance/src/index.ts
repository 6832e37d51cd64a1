export {
  type Access,
  type Accesses,
  type Costs,
  costOf,
  learnedCosts,
} from './costs.js';
export {
  type Forecast,
  type Forecaster,
  forecastAll,
  forecastError,
  meanAbsoluteError,
  type Observation,
} from './forecast/forecaster.js';
export { type PanelOptions, type PanelState, panel } from './forecast/panel.js';
export {
  type BurstAwareOptions,
  baEsm,
  burstRatio,
  type SmoothingState,
  sesm,
} from './forecast/smoothing.js';
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
  keptShare,
  type Seen,
  type ServedIn,
  type SustainableBounds,
  sustainableBytes,
} from './sustainable.js';
export {
  type Assignment,
  assignTargets,
  chooseTarget,
  type Overload,
  type ServerLoad,
} from './targets.js';
export {
  type Conditions,
  fileThreshold,
  globalThreshold,
  heated,
  isWorthRow,
} from './threshold.js';
