import { localDisk, slowDisk } from '@stevedore/disk';
import type { Storage } from '@stevedore/node';
import type { TierOptions } from '@stevedore/tiering';
import type { ClassStatus } from '@stevedore/tiering/control';
import { SEEK_MS } from '../harness/hard-disk.js';
import { VirtualTime } from '../harness/virtual-time.js';
import type { LoadArgument, LoadResult } from './load-process.js';
import type { CostsArgument } from './moving-cost-model.js';

/**
 * Metadata servers, a tracker and their clients in one process and in virtual time: all of it is the
 * real thing, over real sockets and with real files, but every storage has a disk of the slow model,
 * and processor and network take no time. So the figures are those of disks alone, and nearly the same
 * on any machine.
 */

const time = new VirtualTime(Date.now());
time.install(1);
time.installClocks();
// What was loaded before would live in another time.
const { startStorage } = await import('@stevedore/node');
const { startTracker } = await import('@stevedore/tracker');
const loads = await import('./load-process.js');
const { costs } = await import('./moving-cost-model.js');

function onError(error: Error): void {
  console.error(`model: ${error.message}`);
}

let tracker = '';
let stop = async (): Promise<void> => {};
const storages = new Map<string, Storage>();

async function startAll(directory: string, tiers: Readonly<Record<string, TierOptions>>) {
  const started = await startTracker({ port: 0, reservedSpaceMegabytes: 64, onError });
  tracker = `127.0.0.1:${started.port}`;
  for (const [group, own] of Object.entries(tiers)) {
    const storage = await startStorage({
      ...{ port: 0, storePaths: [`${directory}/${group}`], trackers: [tracker], group },
      ...{ cacheBytes: 0, tiers: own, disk: slowDisk(localDisk, SEEK_MS), onError },
    });
    storages.set(group, storage);
    await storage.active();
  }
  stop = async () => {
    for (const storage of storages.values()) await storage.close();
    await started.close();
  };
}

/** Storages by the names of their groups. */
export const start = (directory: string, tiers: Readonly<Record<string, TierOptions>>) =>
  time.passDuring(startAll(directory, tiers));

export const files = (count: number) => time.passDuring(loads.files(tracker, count));

/** All at a time. */
export const run = (all: readonly LoadArgument[]): Promise<LoadResult[]> =>
  time.passDuring(Promise.all(all.map((each) => loads.run(tracker, each))));

type Load = Parameters<typeof loads.replay>[2];

/** What the scheduler of the first group counts in each interval while the loads are replayed. */
async function replayAll(asked: readonly string[], all: readonly Load[], seed: number) {
  const status = () => [...storages.values()][0]!.migrationStatus()!;
  const intervals: { readonly metadata: ClassStatus; readonly smallFile: ClassStatus }[] = [];
  // The interval under way when the loads begin is not their own.
  let last = status().intervals + 1;
  const timer = setInterval(() => {
    const { intervals: count, load } = status();
    if (count > last) intervals.push(load);
    last = Math.max(last, count);
  }, status().intervalMs);
  await Promise.all(all.map((load) => loads.replay(tracker, asked, load, seed)));
  clearInterval(timer);
  return { intervals, capacityBytes: status().capacityBytes };
}

export const record = (asked: readonly string[], all: readonly Load[], seed: number) =>
  time.passDuring(replayAll(asked, all, seed));

export const migration = (group: string) => storages.get(group)?.migrationStatus();

export const costsOf = (given: Omit<CostsArgument, 'tracker' | 'status'>) =>
  time.passDuring(costs({ ...given, tracker, status: migration }));

export const close = () => time.passDuring(stop());
