/**
 * Recursive least squares with forgetting: learns the weights of a linear relation one example at a
 * time. Pure: a step returns a new state. A step with k features costs about 3k² multiplications.
 */

export interface LeastSquaresState {
  readonly weights: readonly number[];
  /** The inverse correlation of the features, row by row. */
  readonly inverse: readonly number[];
}

/** Variance of the weights before the first example. */
const INITIAL_VARIANCE = 10;
/** Forgetting lets the inverse grow while nothing is learned; above this it is not updated. */
const LARGEST_VARIANCE = 1e6;

export function startLeastSquares(features: number): LeastSquaresState {
  const inverse = new Array<number>(features * features).fill(0);
  for (let index = 0; index < features; index += 1) {
    inverse[index * features + index] = INITIAL_VARIANCE;
  }
  return { weights: new Array<number>(features).fill(0), inverse };
}

export function predict({ weights }: LeastSquaresState, features: readonly number[]): number {
  let sum = 0;
  for (let index = 0; index < weights.length; index += 1) sum += weights[index]! * features[index]!;
  return sum;
}

/** Learns from an example; `memory` is the weight of the past. */
export function learn(
  state: LeastSquaresState,
  features: readonly number[],
  value: number,
  memory: number,
): LeastSquaresState {
  const count = features.length;
  const { inverse } = state;
  const spread = new Array<number>(count).fill(0);
  for (let row = 0; row < count; row += 1) {
    for (let column = 0; column < count; column += 1) {
      spread[row]! += inverse[row * count + column]! * features[column]!;
    }
  }
  let scale = memory;
  for (let index = 0; index < count; index += 1) scale += features[index]! * spread[index]!;
  const error = value - predict(state, features);
  const weights = state.weights.map((weight, index) => weight + (spread[index]! / scale) * error);
  const next = inverse.map((entry, index) => {
    const row = Math.floor(index / count);
    return (entry - (spread[row]! * spread[index % count]!) / scale) / memory;
  });
  const grown = next.some((entry) => Math.abs(entry) > LARGEST_VARIANCE);
  return { weights, inverse: grown ? inverse : next };
}
