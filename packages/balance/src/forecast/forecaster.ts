/**
 * A forecaster is a state and a step. At the end of an interval, a step takes what was observed and
 * returns the load of the coming interval. The state is plain data, so a forecast can be stored and
 * repeated. All numbers are bytes of one class.
 */

export interface Observation {
  /** O: the load that is forecast. */
  readonly loadBytes: number;
  /** TD (Eq. 8 and 9): what was served in the interval. */
  readonly servedBytes: number;
  /** TD̂: what is in the queue to be served. */
  readonly queuedBytes: number;
}

export interface Forecast<S> {
  readonly state: S;
  /** F: the load of the coming interval, 0 to B_logic. */
  readonly bytes: number;
}

export interface Forecaster<S = unknown> {
  readonly name: string;
  readonly initial: S;
  step(state: S, observed: Observation): Forecast<S>;
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

export function assertCapacity(capacityBytes: number): void {
  if (!(capacityBytes > 0 && Number.isFinite(capacityBytes))) {
    throw new RangeError(`the capacity is ${capacityBytes} bytes`);
  }
}

/** Throws a RangeError unless the value is from 0 to 1. */
export function assertShare(name: string, value: number): void {
  if (!(value >= 0 && value <= 1)) throw new RangeError(`${name} is ${value}, not in 0 to 1`);
}
