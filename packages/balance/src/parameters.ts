/**
 * The parameters of the adaptive trade-off. Defaults are the paper's (Table 1, section 5.2). They
 * are checked once, here; no other function checks them again.
 */

export interface Parameters {
  /** Th_sg: at this used share of the store and above, the threshold shrinks. */
  readonly usedMark: number;
  /** Th_ld: above this load (share of B_logic), the threshold shrinks. */
  readonly highLoadMark: number;
  /** Th'_ld: below this load, the threshold grows. */
  readonly lowLoadMark: number;
  /** p: share by which used space shrinks the threshold in an interval. */
  readonly spaceStep: number;
  /** q: share by which high load shrinks the threshold in an interval, and low load grows it. */
  readonly loadStep: number;
  /** δ: share that each move of a file adds to its own threshold. */
  readonly moveWeight: number;
  /** Th_max: no larger file is stored with its metadata. */
  readonly maximumThresholdBytes: number;
  /** Lower bound of the threshold: it changes by factors and could hardly grow again from less. */
  readonly minimumThresholdBytes: number;
  /** N: most files selected in an interval. */
  readonly maximumSelectedFiles: number;
  /** The efficiency (Eq. 1) that a server should not exceed. */
  readonly efficiencyMark: number;
  /** Least share of B_logic for small files, however much metadata there is. */
  readonly smallFileShare: number;
}

export const defaultParameters: Parameters = Object.freeze({
  usedMark: 0.8,
  highLoadMark: 0.8,
  lowLoadMark: 0.2,
  spaceStep: 0.05,
  loadStep: 0.05,
  moveWeight: 0.05,
  maximumThresholdBytes: 2 * 2 ** 20,
  minimumThresholdBytes: 1024,
  maximumSelectedFiles: 64,
  efficiencyMark: 1,
  smallFileShare: 0,
});

const SHARES = [
  ...(['usedMark', 'highLoadMark', 'lowLoadMark', 'spaceStep', 'loadStep'] as const),
  ...(['efficiencyMark', 'smallFileShare'] as const),
];

/**
 * Merges the given values with the defaults, checked and frozen. Throws a RangeError that names the
 * bad one.
 */
export function parameters(given: Partial<Parameters> = {}): Parameters {
  const all = { ...defaultParameters, ...given };
  for (const name of SHARES) assertShare(name, all[name]);
  if (all.lowLoadMark > all.highLoadMark) {
    throw new RangeError('lowLoadMark is above highLoadMark');
  }
  if (!(all.moveWeight >= 0)) throw new RangeError(`moveWeight is ${all.moveWeight}`);
  if (!(all.minimumThresholdBytes > 0)) {
    throw new RangeError(`minimumThresholdBytes is ${all.minimumThresholdBytes}`);
  }
  if (!(all.maximumThresholdBytes >= all.minimumThresholdBytes)) {
    throw new RangeError('maximumThresholdBytes is below minimumThresholdBytes');
  }
  if (!Number.isSafeInteger(all.maximumSelectedFiles) || all.maximumSelectedFiles < 1) {
    throw new RangeError(`maximumSelectedFiles is ${all.maximumSelectedFiles}`);
  }
  return Object.freeze(all);
}

/** Throws a RangeError unless the value is from 0 to 1. */
export function assertShare(name: string, value: number): void {
  if (!(value >= 0 && value <= 1)) throw new RangeError(`${name} is ${value}, not in 0 to 1`);
}
