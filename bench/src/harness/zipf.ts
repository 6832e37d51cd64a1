/**
 * Zipf's law: the file of rank r is asked for r^-exponent times as often as the first. Draws ranks
 * without a table, so that a population may have 10^11 files: rejection-inversion (Hörmann and
 * Derflinger, 1996). Pure.
 */
export class Zipf {
  readonly #count: number;
  readonly #exponent: number;
  readonly #random: () => number;
  readonly #first: number;
  readonly #last: number;
  readonly #sure: number;

  /** `random`: uniform in [0, 1). */
  constructor(count: number, exponent: number, random: () => number) {
    this.#count = count;
    this.#exponent = exponent;
    this.#random = random;
    this.#first = this.#integral(1.5) - 1;
    this.#last = this.#integral(count + 0.5);
    this.#sure = 2 - this.#inverse(this.#integral(2.5) - 2 ** -exponent);
  }

  /** A rank from 1 to the number of files. */
  next(): number {
    for (;;) {
      const area = this.#last + this.#random() * (this.#first - this.#last);
      const place = this.#inverse(area);
      const rank = Math.min(this.#count, Math.max(1, Math.floor(place + 0.5)));
      const isUnder = area >= this.#integral(rank + 0.5) - rank ** -this.#exponent;
      if (rank - place <= this.#sure || isUnder) return rank;
    }
  }

  /** Of x^-exponent. */
  #integral(x: number): number {
    const rest = 1 - this.#exponent;
    return rest === 0 ? Math.log(x) : (x ** rest - 1) / rest;
  }

  #inverse(area: number): number {
    const rest = 1 - this.#exponent;
    return rest === 0 ? Math.exp(area) : Math.max(0, 1 + area * rest) ** (1 / rest);
  }
}

/** Terms that are added up one by one; the rest is an integral, exact to seven digits. */
const SUMMED = 1_000;

/** The sum of r^-exponent for the ranks up to this one, which need not be whole. */
function weightUpTo(rank: number, exponent: number): number {
  let sum = 0;
  const summed = Math.min(Math.floor(rank), SUMMED);
  for (let at = 1; at <= summed; at += 1) sum += at ** -exponent;
  if (rank <= SUMMED) return sum + (rank - summed) * (summed + 1) ** -exponent;
  const rest = 1 - exponent;
  const integral = rest === 0 ? Math.log(rank / SUMMED) : (rank ** rest - SUMMED ** rest) / rest;
  return sum + integral + (rank ** -exponent - SUMMED ** -exponent) / 2;
}

/** The share of all requests that ask for the `most` most popular of `count` files. */
export function shareOfRequests(most: number, count: number, exponent: number): number {
  return weightUpTo(Math.min(most, count), exponent) / weightUpTo(count, exponent);
}

const HALVINGS = 60;

/** How many of the most popular files get this share of all requests. */
export function filesForShare(share: number, count: number, exponent: number): number {
  let [low, high] = [0, Math.log(count)];
  for (let at = 0; at < HALVINGS; at += 1) {
    const middle = (low + high) / 2;
    if (shareOfRequests(Math.exp(middle), count, exponent) < share) low = middle;
    else high = middle;
  }
  return Math.exp(high);
}
