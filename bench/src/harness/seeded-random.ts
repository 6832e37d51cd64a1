import { SeededRandom } from '@stevedore/balance';

/** Numbers from 0 to below 1, the same for the same seed. */
export function seededRandom(seed: number): () => number {
  const random = new SeededRandom(seed);
  return () => random.next();
}
