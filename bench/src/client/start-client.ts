import { Child } from '../harness/child.js';
import type { ClientHandlers } from './client-process.js';
import { SIZES } from './plan.js';

/** A measured process, with its files made. */
export async function startClient(
  sizes: readonly number[] = Object.values(SIZES),
  nodeOptions: readonly string[] = [],
): Promise<Child<ClientHandlers>> {
  const module = new URL('./client-process.js', import.meta.url);
  const child = new Child<ClientHandlers>(module, { nodeOptions });
  await child.call('prepare', sizes);
  return child;
}
