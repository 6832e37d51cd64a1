import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { localDisk } from '@stevedore/disk';
import type { Storage } from '@stevedore/node';
import type { TierOptions } from '@stevedore/tiering';
import { SlowDisk } from '../harness/slow-disk.js';
import { VirtualTime } from '../harness/virtual-time.js';
import type { LoadArgument, LoadResult } from './load-process.js';
import type { CostsArgument } from './moving-cost-model.js';

/**
 * Metadata servers, a tracker and their clients in one process and in virtual time: all of it is the
 * real thing, over real sockets and with real files, but every storage has a disk of the slow model,
 * and processor and network take no time. So the figures are those of disks alone, and nearly the same
 * on any machine.
 *
 * Rows do not pass a storage's `Disk`: every row that is read and every sync of the rows' log waits
 * for the same arm as the files do, at the places where SQLite is called.
 */

const time = new VirtualTime(Date.now());
time.install(1);
time.installClocks();

/** By the directories of the storages. */
const arms = new Map<string, SlowDisk>();
const logs = new Map<number, SlowDisk>();

function armOf(path: string): SlowDisk | undefined {
  for (const [directory, arm] of arms) if (path.startsWith(directory)) return arm;
  return undefined;
}

const { fdatasync, openSync } = fs;
Object.assign(fs, {
  openSync: (path: string, ...how: [string]) => {
    const file = openSync(path, ...how);
    const arm = armOf(path);
    if (arm) logs.set(file, arm);
    return file;
  },
  fdatasync: (file: number, done: fs.NoParamCallback) => {
    const arm = logs.get(file);
    if (arm) arm.access(0).then(() => fdatasync(file, done), done);
    else fdatasync(file, done);
  },
});
syncBuiltinESMExports();
// What was loaded before would live in another time.
const { Tiering } = await import('@stevedore/tiering');
const { startStorage } = await import('@stevedore/node');
const { startTracker } = await import('@stevedore/tracker');
const loads = await import('./load-process.js');
const { costs } = await import('./moving-cost-model.js');

type Files = import('@stevedore/tiering').Tiering['files'];
const { get } = Object.getOwnPropertyDescriptor(Tiering.prototype, 'files') ?? {};
Object.defineProperty(Tiering.prototype, 'files', {
  get() {
    return slowRows(get?.call(this) as Files);
  },
});

function slowRows(files: Files): Files {
  const openToRead: Files['openToRead'] = async (path) => {
    const file = await files.openToRead(path);
    if (file.bytes) await armOf(path)?.access(file.bytes.length);
    return file;
  };
  return new Proxy(files, {
    get: (target, name: keyof Files) =>
      name === 'openToRead' ? openToRead : target[name]?.bind(target),
  });
}

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
    const storePath = `${directory}/${group}`;
    const arm = new SlowDisk(localDisk);
    arm.isSlow = true;
    arms.set(storePath, arm);
    const storage = await startStorage({
      ...{ port: 0, storePaths: [storePath], trackers: [tracker], group, cacheBytes: 0 },
      ...{ tiers: own, disk: arm.disk, onError },
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

export const migration = (group: string) => storages.get(group)?.migrationStatus();

export const costsOf = (given: Omit<CostsArgument, 'tracker' | 'status'>) =>
  time.passDuring(costs({ ...given, tracker, status: migration }));

export const close = () => time.passDuring(stop());
