import { randomBytes } from 'node:crypto';
import { deferred } from '@stevedore/async';
import type { TrunkSource } from '@stevedore/staging';
import { expect, test, vi } from 'vitest';
import { MemoryTrunkStore } from '../../support/memory-trunk-store.js';
import { openStaging, stageFile } from '../../support/staging.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What wakes the Merge Task. */

class GatedStore extends MemoryTrunkStore {
  readonly #gate = deferred<void>();

  open(): void {
    this.#gate.resolve();
  }

  override async store(source: TrunkSource, signal: AbortSignal): Promise<string> {
    await this.#gate.promise;
    return super.store(source, signal);
  }
}

test('while two trunks are being stored, uploads do not wake it; their end does', async () => {
  const store = new GatedStore();
  const { staging, errors } = await openStaging(temporaryFolder(), {}, store);
  const stage = (count: number) =>
    Promise.all(Array.from({ length: count }, () => stageFile(staging, randomBytes(60_000))));
  await stage(50);
  await vi.waitFor(() => expect(staging.stats().trunksInFlight).toBe(2));
  const looks = vi.spyOn(staging.fileMap, 'waitingSpooled');
  for (let upload = 0; upload < 50; upload += 1) await stage(1);
  expect(looks.mock.calls.length).toBeLessThan(3);
  store.open();
  await vi.waitFor(() => expect(staging.stats().mergedFiles).toBeGreaterThan(80));
  expect(errors).toEqual([]);
});
