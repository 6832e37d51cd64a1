/**
 * The parameters of the adaptive trade-off. Defaults are the paper's (Table 1, section 5.2).
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

/** The given values, and the defaults of the others. */
export function parameters(given: Partial<Parameters> = {}): Parameters {
  return Object.freeze({ ...defaultParameters, ...given });
}
