import { randomFillSync } from 'node:crypto';
import type { StagingOptions, TrunkStore } from '@stevedore/staging';

const DAY_MS = 86_400_000;
const GIB = 2 ** 30;

/** Staging as the SDK opens it, but nothing is merged before the caller asks for it. */
export function stagingOptions(
  directory: string,
  sync: boolean,
  trunkStore: TrunkStore,
): StagingOptions {
  return {
    directory,
    connect: () => Promise.resolve(trunkStore),
    trunkSize: 2 * GIB,
    mergeMaxAge: DAY_MS,
    containerSize: 20 * GIB,
    retain: GIB,
    durability: sync ? 'sync' : 'os',
    now: Date.now,
    randomFill: (target) => randomFillSync(target),
    packingSeed: 1,
  };
}
