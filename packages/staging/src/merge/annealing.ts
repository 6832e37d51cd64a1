/**
 * Chooses the members of a trunk by simulated annealing (client merging paper, section 2.2: "the
 * size of the final merged file is closest to the value of the memory block"). Deterministic: the
 * same units and random numbers give the same choice.
 *
 * Energy is the unfilled bytes plus the penalties of the units left behind. Two deterministic
 * choices come first: the oldest units that fit, and best-fit decreasing; each is improved by
 * single exchanges as long as that helps. If neither fills the trunk, annealing adds, drops and
 * swaps units while the temperature falls from the spread of their sizes to one byte, then
 * exchanges again. It restarts, alternately from the oldest units and from the best choice, until
 * the moves are used up. The best choice found wins, so the result is never worse than best-fit
 * decreasing.
 */

export interface PackingUnit {
  /** Bytes the unit adds to the trunk, format included. */
  readonly bytes: number;
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
  /** Total moves of all restarts; 0: only the deterministic choices. */
  readonly maxMoves?: number;
}

export interface Packing {
  /** Indexes of the chosen units, ascending. */
  readonly chosen: readonly number[];
  readonly bytes: number;
  readonly unfilledBytes: number;
  /** Additions, drops and swaps that were tried. */
  readonly moves: number;
}

const DEFAULT_MOVES = 60_000;
/** Moves per start: per unit, and at least. Few large units gain from many starts. */
const MOVES_PER_UNIT = 40;
const MIN_MOVES_PER_START = 1_500;
/** Initial temperature, as a share of the standard deviation of the sizes, and its minimum. */
const HEAT = 0.5;
const MIN_HEAT_BYTES = 64;
/** Moves between two yields: well under a millisecond. */
const MOVES_PER_STEP = 5_000;
/** Units per side considered for an exchange; more than enough to find one. */
const MAX_EXCHANGED = 4_096;
const MAX_EXCHANGES = 8;

/**
 * Units must be ordered by age, oldest first. Yields between steps, so that other work gets its
 * turn.
 */
export function* anneal(
  units: readonly PackingUnit[],
  limits: PackingLimits,
  { random, maxMoves = DEFAULT_MOVES }: AnnealingOptions,
): Generator<void, Packing, undefined> {
  const selection = new Selection(units, limits);
  yield;
  selection.takeOldest();
  yield;
  if (selection.hasChoice) {
    yield* selection.finish();
    selection.keepIfBest();
    if (selection.best.unfilledBytes > 0) {
      selection.takeDecreasing();
      yield;
      yield* selection.finish();
    }
  }
  selection.keepIfBest();
  yield;
  let moves = 0;
  for (let start = 0; selection.canGain && moves < maxMoves; start += 1) {
    if (start % 2 === 0) selection.takeOldest();
    else selection.takeBest();
    const count = Math.min(selection.movesPerStart, maxMoves - moves);
    // Falls from `heatBytes` to one byte within `count` moves.
    const factor = (1 / selection.heatBytes) ** (1 / count);
    let temperature = selection.heatBytes;
    for (let move = 1; move <= count && selection.unfilledBytes > 0; move += 1) {
      temperature *= factor;
      selection.move(random, temperature);
      moves += 1;
      if (move % MOVES_PER_STEP === 0) yield;
    }
    yield;
    yield* selection.finish();
    selection.keepIfBest();
  }
  const { chosen, unfilledBytes } = selection.best;
  const bytes = limits.capacityBytes - unfilledBytes;
  return { chosen: [...chosen].sort((a, b) => a - b), bytes, unfilledBytes, moves };
}

interface Choice {
  readonly chosen: readonly number[];
  readonly unfilledBytes: number;
  readonly energy: number;
}

/** Which units are in the trunk and which are not, with the sums that a move changes. */
class Selection {
  readonly #units: readonly PackingUnit[];
  readonly #limits: PackingLimits;
  /** Units that fit into an empty trunk, ordered by age. */
  readonly #all: readonly number[];
  readonly #deviation: number;
  readonly heatBytes: number;
  readonly movesPerStart: number;
  #inside: number[] = [];
  #outside: number[] = [];
  #files = 0;
  unfilledBytes: number;
  best: Choice;

  constructor(units: readonly PackingUnit[], limits: PackingLimits) {
    this.#units = units;
    this.#limits = limits;
    this.unfilledBytes = limits.capacityBytes;
    this.#all = fitting(units, limits);
    this.#deviation = deviation(units, this.#all);
    this.heatBytes = Math.max(MIN_HEAT_BYTES, HEAT * this.#deviation);
    this.movesPerStart = Math.max(MIN_MOVES_PER_START, MOVES_PER_UNIT * this.#all.length);
    this.best = { chosen: [], unfilledBytes: limits.capacityBytes, energy: Infinity };
  }

  get hasChoice(): boolean {
    return this.#outside.length > 0;
  }

  /** False if the trunk is full, holds all units, or all units have the same size. */
  get canGain(): boolean {
    const { unfilledBytes, chosen } = this.best;
    return unfilledBytes > 0 && chosen.length < this.#all.length && this.#deviation > 0;
  }

  takeOldest(): void {
    this.#take(this.#all);
  }

  takeBest(): void {
    this.#take(this.best.chosen);
  }

  /** The fullest trunk when all units are spread over trunks by best-fit decreasing. */
  takeDecreasing(): void {
    const { capacityBytes, maxFiles } = this.#limits;
    const units = this.#units;
    const trunks: { left: number; files: number; chosen: number[] }[] = [];
    const order = [...this.#all].sort((a, b) => units[b]!.bytes - units[a]!.bytes);
    for (const index of order) {
      const { bytes, files } = units[index]!;
      let tightest: (typeof trunks)[number] | undefined;
      for (const trunk of trunks) {
        const fits = trunk.left >= bytes && trunk.files + files <= maxFiles;
        if (fits && (!tightest || trunk.left < tightest.left)) tightest = trunk;
      }
      if (!tightest) {
        tightest = { left: capacityBytes, files: 0, chosen: [] };
        trunks.push(tightest);
      }
      tightest.left -= bytes;
      tightest.files += files;
      tightest.chosen.push(index);
    }
    const fullest = trunks.reduce((full, each) => (each.left < full.left ? each : full));
    this.#take(fullest.chosen);
  }

  /**
   * Adds a unit that fits, or swaps or drops one, if the temperature allows it. Some are outside
   * while chance can gain anything, and each of them fits into an empty trunk.
   */
  move(random: () => number, temperature: number): void {
    const outside = Math.floor(random() * this.#outside.length);
    const coming = this.#units[this.#outside[outside]!]!;
    if (this.#fits(coming)) {
      this.#add(this.#outside[outside]!);
      removeAt(this.#outside, outside);
      return;
    }
    const inside = Math.floor(random() * this.#inside.length);
    const leaving = this.#units[this.#inside[inside]!]!;
    const swaps = this.#canSwap(leaving, coming);
    const change = swaps
      ? leaving.bytes - coming.bytes + leaving.penalty - coming.penalty
      : leaving.bytes + leaving.penalty;
    if (change > 0 && random() >= Math.exp(-change / temperature)) return;
    if (swaps) this.#swap(inside, outside);
    else this.#drop(inside);
  }

  /** Fills the rest, then exchanges single units as long as that fills more. */
  *finish(): Generator<void, void, undefined> {
    this.#fill();
    for (let count = 0; count < MAX_EXCHANGES && this.unfilledBytes > 0; count += 1) {
      yield;
      if (!this.#exchange()) return;
      yield;
      this.#fill();
    }
  }

  keepIfBest(): void {
    const penalties = this.#outside.reduce((sum, index) => sum + this.#units[index]!.penalty, 0);
    const energy = this.unfilledBytes + penalties;
    if (energy >= this.best.energy) return;
    const { unfilledBytes } = this;
    this.best = { chosen: [...this.#inside], unfilledBytes, energy };
  }

  /** Takes these units first, then the others by age, as far as they fit. */
  #take(first: readonly number[]): void {
    this.#inside = [];
    this.#outside = [];
    this.#files = 0;
    this.unfilledBytes = this.#limits.capacityBytes;
    this.#addAll(first);
    if (first === this.#all) return;
    const taken = new Set(first);
    this.#addAll(this.#all.filter((index) => !taken.has(index)));
  }

  /** Adds the units that still fit, by age. */
  #fill(): void {
    const left = this.#outside.sort((a, b) => a - b);
    this.#outside = [];
    this.#addAll(left);
  }

  /** Adds the units that fit; the others are outside. */
  #addAll(indexes: readonly number[]): void {
    for (const index of indexes) {
      if (this.#fits(this.#units[index]!)) this.#add(index);
      else this.#outside.push(index);
    }
  }

  /**
   * Makes the swap that leaves the fewest bytes unfilled: for each unit inside, the largest unit
   * outside that fits in its place. A unit is never replaced by a younger one with a lower penalty.
   * False if there is no such swap.
   */
  #exchange(): boolean {
    const units = this.#units;
    const places = [...this.#outside.keys()].slice(0, MAX_EXCHANGED);
    const sizeAt = (place: number): number => units[this.#outside[place]!]!.bytes;
    places.sort((a, b) => sizeAt(a) - sizeAt(b));
    let best = { gain: 0, inside: -1, outside: -1 };
    for (const [inside, index] of this.#inside.slice(-MAX_EXCHANGED).entries()) {
      const leaving = units[index]!;
      const limit = leaving.bytes + this.unfilledBytes;
      const outside = places[countAtMost(places, sizeAt, limit) - 1];
      if (outside === undefined) continue;
      const coming = units[this.#outside[outside]!]!;
      if (leaving.penalty > coming.penalty || !this.#canSwap(leaving, coming)) continue;
      const gain = coming.bytes - leaving.bytes;
      const at = inside + Math.max(0, this.#inside.length - MAX_EXCHANGED);
      if (gain > best.gain) best = { gain, inside: at, outside };
      if (best.gain === this.unfilledBytes) break;
    }
    if (best.inside < 0) return false;
    this.#swap(best.inside, best.outside);
    return true;
  }

  #fits({ bytes, files }: PackingUnit): boolean {
    return bytes <= this.unfilledBytes && this.#files + files <= this.#limits.maxFiles;
  }

  #canSwap(leaving: PackingUnit, coming: PackingUnit): boolean {
    const files = this.#files + coming.files - leaving.files;
    return coming.bytes - leaving.bytes <= this.unfilledBytes && files <= this.#limits.maxFiles;
  }

  #add(index: number): void {
    const { bytes, files } = this.#units[index]!;
    this.#inside.push(index);
    this.#files += files;
    this.unfilledBytes -= bytes;
  }

  #drop(inside: number): void {
    const index = this.#inside[inside]!;
    const { bytes, files } = this.#units[index]!;
    removeAt(this.#inside, inside);
    this.#outside.push(index);
    this.#files -= files;
    this.unfilledBytes += bytes;
  }

  #swap(inside: number, outside: number): void {
    const leaving = this.#inside[inside]!;
    const coming = this.#outside[outside]!;
    this.unfilledBytes += this.#units[leaving]!.bytes - this.#units[coming]!.bytes;
    this.#files += this.#units[coming]!.files - this.#units[leaving]!.files;
    this.#inside[inside] = coming;
    this.#outside[outside] = leaving;
  }
}

/** Removes an element; the last one takes its place. */
function removeAt(list: number[], at: number): void {
  const last = list.pop()!;
  if (at < list.length) list[at] = last;
}

/** Indexes of the units that fit into an empty trunk. */
function fitting(units: readonly PackingUnit[], limits: PackingLimits): number[] {
  const indexes: number[] = [];
  for (let index = 0; index < units.length; index += 1) {
    const { bytes, files } = units[index]!;
    if (bytes <= limits.capacityBytes && files <= limits.maxFiles) indexes.push(index);
  }
  return indexes;
}

/** Standard deviation of the sizes; of none, not a number. */
function deviation(units: readonly PackingUnit[], among: readonly number[]): number {
  let sum = 0;
  for (const index of among) sum += units[index]!.bytes;
  const mean = sum / among.length;
  let squares = 0;
  for (const index of among) squares += (units[index]!.bytes - mean) ** 2;
  return Math.sqrt(squares / among.length);
}

/** Number of places, ordered by size, with at most `limit` bytes. */
function countAtMost(
  places: readonly number[],
  sizeAt: (place: number) => number,
  limit: number,
): number {
  let low = 0;
  let high = places.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sizeAt(places[middle]!) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
