/**
 * The parameters of the adaptive trade-off. Defaults are the paper's (Table 1, section 5.2).
 */

export const defaultParameters = Object.freeze({
  /** α of the forecast. */
  alpha: 0.1,
  /** β: a lower ratio of what is queued to what is served is the end of a burst. */
  burstEnd: 0.9,
  /** γ: a higher one is the beginning of a burst. */
  burstBegin: 1.1,
  /** Th_sg: at this used share of the store and above, the threshold shrinks. */
  usedMark: 0.8,
  /** Th_ld: above this load (share of B_logic), the threshold shrinks. */
  highLoadMark: 0.8,
  /** Th'_ld: below this load, the threshold grows. */
  lowLoadMark: 0.2,
  /** p: share by which used space shrinks the threshold in an interval. */
  spaceStep: 0.05,
  /** q: share by which high load shrinks the threshold in an interval, and low load grows it. */
  loadStep: 0.05,
  /** δ: share that each move of a file adds to its own threshold. */
  moveWeight: 0.05,
  /** Th_max: no larger file is stored with its metadata. */
  maximumThresholdBytes: 2 * 2 ** 20,
  /** Lower bound of the threshold: it changes by factors and could hardly grow again from less. */
  minimumThresholdBytes: 1024,
  /** N: most files selected in an interval. */
  maximumSelectedFiles: 64,
  /** The efficiency (Eq. 1) that a server should not exceed. */
  efficiencyMark: 1,
  /** Least share of B_logic for small files, however much metadata there is. */
  smallFileShare: 0,
});

export type Parameters = { readonly [Name in keyof typeof defaultParameters]: number };

/** The given values, and the defaults of the others. */
export function parameters(given: Partial<Parameters> = {}): Parameters {
  return Object.freeze({ ...defaultParameters, ...given });
}
