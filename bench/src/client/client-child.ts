import { Child } from '../harness/child.js';
import type { ClientHandlers } from './client-process.js';
import { SEED, SIZES, type Size } from './plan.js';

/** The parent's end of a measured process, with its files made. */
export async function startClient(
  name: string,
  sizes: readonly Size[] = SIZES,
  nodeOptions: readonly string[] = [],
): Promise<Child<ClientHandlers>> {
  const module = new URL('./client-process.js', import.meta.url);
  const child = new Child<ClientHandlers>(name, module, { nodeOptions });
  await child.call('prepare', { sizes: sizes.map(({ bytes }) => bytes), seed: SEED });
  return child;
}
