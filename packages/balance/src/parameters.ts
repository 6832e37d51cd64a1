/**
 * The parameters of the adaptive trade-off, with the paper's values (Table 1, section
 * 5.2) as defaults. One place, checked once: every function beside takes them as
 * they are and need not ask again.
 */

export interface Parameters {
  /** Th_sg: from this used share of the store on, the threshold shrinks. */
  readonly usedMark: number;
  /** Th_ld: from this load on (share of B_logic), the threshold shrinks. */
  readonly highLoadMark: number;
  /** Th'_ld: below this load, the threshold grows. */
  readonly lowLoadMark: number;
  /** p: by how much used space shrinks the threshold in an interval. */
  readonly spaceStep: number;
  /** q: by how much load shrinks the threshold, or its absence lets it grow. */
  readonly loadStep: number;
  /** δ: what every move that a file has made adds to its own threshold. */
  readonly moveWeight: number;
  /** Th_max: no file larger than this lies with its metadata. */
  readonly maximumThresholdBytes: number;
  /** The threshold shrinks by a factor; below this it could hardly grow again. */
  readonly minimumThresholdBytes: number;
  /** N: the most files that are selected in an interval. */
  readonly maximumSelectedFiles: number;
  /** The efficiency (Eq. 1) that a server is kept at or below. */
  readonly efficiencyMark: number;
  /** Of B_logic, what small files have at least, however much metadata there is. */
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

/** Defaults with what is given, frozen. Throws a RangeError that names what is wrong. */
export function parameters(given: Partial<Parameters> = {}): Parameters {
  const all = { ...defaultParameters, ...given };
  share('usedMark', all.usedMark);
  share('highLoadMark', all.highLoadMark);
  share('lowLoadMark', all.lowLoadMark);
  share('spaceStep', all.spaceStep);
  share('loadStep', all.loadStep);
  share('efficiencyMark', all.efficiencyMark);
  share('smallFileShare', all.smallFileShare);
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

function share(name: string, value: number): void {
  if (!(value >= 0 && value <= 1)) throw new RangeError(`${name} is ${value}, not in 0 to 1`);
}
