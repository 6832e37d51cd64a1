import type { StagingOptions } from '@stevedore/staging';
import { MemoryTrunkStore } from './memory-trunk-store.js';
import { openStaging } from './staging.js';
import { temporaryFolder } from './temporary.js';

/** A FastDFS that stores no trunk until the test releases it. */
class HeldTrunkStore extends MemoryTrunkStore {
  isHeld = true;
  readonly waiting: (() => void)[] = [];
  override beforeStore = async (): Promise<void> => {
    if (this.isHeld) await new Promise<void>((resolve) => this.waiting.push(resolve));
  };

  release(): void {
    this.isHeld = false;
    for (const go of this.waiting.splice(0)) go();
  }
}

export async function openHeld(options: Partial<StagingOptions> = {}) {
  const store = new HeldTrunkStore();
  return { ...(await openStaging(temporaryFolder(), options, store)), store };
}
