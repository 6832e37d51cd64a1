import { SeededRandom } from '@stevedore/bench/seeded-random';

/** A seeded generator, so that a failing run can be repeated, with what tests draw from it. */
export class Random extends SeededRandom {
  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }

  /** Each as often as its weight says, which comes first in it. */
  pickByWeight<T extends readonly [number, ...unknown[]]>(items: readonly T[]): T {
    let left = this.below(items.reduce((sum, [weight]) => sum + weight, 0));
    for (const item of items) {
      left -= item[0];
      if (left < 0) return item;
    }
    throw new RangeError('nothing to pick');
  }
}
