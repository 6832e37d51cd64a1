/** Forecasts and choices of the adaptive trade-off: pure functions over plain data. */

export * from './costs.js';
export type { Forecaster, Observation } from './forecast/forecaster.js';
export { baEsm, burstRatio, sesm } from './forecast/smoothing.js';
export * from './load.js';
export { defaultParameters, type Parameters, parameters } from './parameters.js';
export * from './policy.js';
export * from './selection.js';
export * from './targets.js';
export * from './threshold.js';
