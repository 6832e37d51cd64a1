/**
 * Chooses the members of a trunk by simulated annealing (client merging paper,
 * section 2.2: "the size of the final merged file is closest to the value of the
 * memory block"). Pure: the same units and the same random numbers give the same
 * choice.
 *
 * Energy is the unfilled bytes plus the penalties of the units left behind. The
 * search starts from the oldest units that fit, swaps units in and out while the
 * temperature falls, stops at once at zero, and ends with a deterministic search
 * for the one swap that fills the rest best.
 */

export interface PackingUnit {
  /** Bytes the unit adds to the trunk, format included. */
  readonly bytes: number;
  /** Files in the unit. */
  readonly files: number;
  /** Energy of leaving the unit behind, in bytes; 0 for young files. */
  readonly penalty: number;
}

export interface PackingLimits {
  /** The total never exceeds it. */
  readonly capacityBytes: number;
  readonly maxFiles: number;
}

export interface AnnealingOptions {
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly maxMoves?: number;
  /** Starting temperature in bytes. */
  readonly temperatureBytes?: number;
}

export interface Packing {
  /** Indexes of the chosen units, ascending. */
  readonly chosen: readonly number[];
  readonly bytes: number;
  readonly unfilledBytes: number;
  /** Swaps that were tried. */
  readonly moves: number;
}

const DEFAULT_MOVES = 60_000;
const DEFAULT_TEMPERATURE_BYTES = 20_000;
/** Temperature at the end, as a share of the start. */
const FINAL_SHARE = 1e-5;
/** Reaching this ends the annealing; the closing search takes it from there. */
const CLOSE_ENOUGH_BYTES = 256;

/** Units are in order of age, oldest first. */
export function anneal(
  units: readonly PackingUnit[],
  limits: PackingLimits,
  options: AnnealingOptions,
): Packing {
  const state = new Selection(units, limits);
  const moves = state.isEverythingChosen ? 0 : search(state, options);
  if (state.unfilledBytes > 0) state.fillRest();
  if (state.unfilledBytes > 0) state.swapBest();
  if (state.unfilledBytes > 0) state.fillRest();
  return {
    chosen: state.chosen().sort((a, b) => a - b),
    bytes: limits.capacityBytes - state.unfilledBytes,
    unfilledBytes: state.unfilledBytes,
    moves,
  };
}

function search(state: Selection, options: AnnealingOptions): number {
  const { random, maxMoves = DEFAULT_MOVES } = options;
  const start = options.temperatureBytes ?? DEFAULT_TEMPERATURE_BYTES;
  const cooling = FINAL_SHARE ** (1 / maxMoves);
  let temperature = start;
  let moves = 0;
  while (moves < maxMoves && state.unfilledBytes > CLOSE_ENOUGH_BYTES) {
    moves += 1;
    temperature *= cooling;
    const inside = Math.floor(random() * state.insideCount);
    const outside = Math.floor(random() * state.outsideCount);
    const change = state.energyOfSwap(inside, outside);
    if (change <= 0 || (change < Infinity && random() < Math.exp(-change / temperature))) {
      state.swap(inside, outside);
    }
  }
  return moves;
}

/** What is in the trunk and what is not, with the sums that a move changes. */
class Selection {
  readonly #units: readonly PackingUnit[];
  readonly #maxFiles: number;
  readonly #inside: number[] = [];
  readonly #outside: number[] = [];
  #files = 0;
  unfilledBytes: number;

  constructor(units: readonly PackingUnit[], limits: PackingLimits) {
    this.#units = units;
    this.#maxFiles = limits.maxFiles;
    this.unfilledBytes = limits.capacityBytes;
    for (const [index, unit] of units.entries()) {
      if (this.#fits(unit)) this.#add(index, unit);
      else this.#outside.push(index);
    }
  }

  get insideCount(): number {
    return this.#inside.length;
  }

  get outsideCount(): number {
    return this.#outside.length;
  }

  /** Nothing to search for: all is in, or nothing can be. */
  get isEverythingChosen(): boolean {
    return this.#outside.length === 0 || this.#inside.length === 0;
  }

  chosen(): number[] {
    return [...this.#inside];
  }

  /** Change of energy if the two changed places; Infinity if the trunk would overflow. */
  energyOfSwap(inside: number, outside: number): number {
    const leaving = this.#units[this.#inside[inside]!]!;
    const coming = this.#units[this.#outside[outside]!]!;
    const bytes = coming.bytes - leaving.bytes;
    const files = this.#files + coming.files - leaving.files;
    if (bytes > this.unfilledBytes || files > this.#maxFiles) return Infinity;
    return leaving.penalty - coming.penalty - bytes;
  }

  swap(inside: number, outside: number): void {
    const leaving = this.#inside[inside]!;
    const coming = this.#outside[outside]!;
    this.unfilledBytes += this.#units[leaving]!.bytes - this.#units[coming]!.bytes;
    this.#files += this.#units[coming]!.files - this.#units[leaving]!.files;
    this.#inside[inside] = coming;
    this.#outside[outside] = leaving;
  }

  /** Adds what still fits, in order of age. */
  fillRest(): void {
    this.#outside.sort((a, b) => a - b);
    const left = this.#outside.splice(0);
    for (const index of left) {
      const unit = this.#units[index]!;
      if (this.#fits(unit)) this.#add(index, unit);
      else this.#outside.push(index);
    }
  }

  /**
   * The one swap that leaves the fewest bytes unfilled: for each unit inside, the
   * largest unit outside that still fits in its place. Only units whose exchange
   * leaves no older penalty behind are considered.
   */
  swapBest(): void {
    const units = this.#units;
    const bySize = this.#outside
      .map((index, place) => ({ place, unit: units[index]! }))
      .sort((a, b) => a.unit.bytes - b.unit.bytes);
    let best = { gain: 0, inside: -1, outside: -1 };
    for (const [inside, index] of this.#inside.entries()) {
      const leaving = units[index]!;
      const limit = leaving.bytes + this.unfilledBytes;
      const candidate = bySize[lastAtMost(bySize, limit)];
      if (!candidate || this.#breaksLimits(leaving, candidate.unit)) continue;
      const gain = candidate.unit.bytes - leaving.bytes;
      if (gain > best.gain) best = { gain, inside, outside: candidate.place };
      if (best.gain === this.unfilledBytes) break;
    }
    if (best.inside >= 0) this.swap(best.inside, best.outside);
  }

  #breaksLimits(leaving: PackingUnit, coming: PackingUnit): boolean {
    return (
      leaving.penalty > coming.penalty ||
      this.#files + coming.files - leaving.files > this.#maxFiles
    );
  }

  #fits(unit: PackingUnit): boolean {
    return unit.bytes <= this.unfilledBytes && this.#files + unit.files <= this.#maxFiles;
  }

  #add(index: number, unit: PackingUnit): void {
    this.#inside.push(index);
    this.#files += unit.files;
    this.unfilledBytes -= unit.bytes;
  }
}

/** Index of the last element of at most `limit` bytes; -1 if there is none. */
function lastAtMost(sorted: readonly { readonly unit: PackingUnit }[], limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]!.unit.bytes <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
