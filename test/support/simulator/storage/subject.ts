import { digestOf } from '../disk.js';
import { CRASH_MODES } from '../file.js';
import type { Crash, Subject } from '../subject.js';
import { StorageHost, type StorageState } from './host.js';
import { STORAGE_SCRIPTS } from './scripts.js';

/** A storage: its files, metadata, journal and log of changes. */
export const STORAGE: Subject<StorageHost, StorageState, Crash> = {
  scripts: STORAGE_SCRIPTS,
  atATime: 24,
  crashes: CRASH_MODES.map((mode) => ({ mode })),
  faults: [
    { code: 'EIO', once: true },
    { code: 'EIO', once: true, short: true },
    { code: 'EIO', once: false },
    { code: 'ENOSPC', once: true },
    { code: 'ENOSPC', once: true, short: true },
    { code: 'EMFILE', once: true },
  ],
  crashesAfterFaults: [{ mode: 'kept' }, { mode: 'lost' }, { mode: 'subset' }, { mode: 'torn' }],
  crashesBehindFault: 1,
  least: { points: 1000, starts: 600, faults: 1200 },
  host: (_options, random) => new StorageHost(random),
  state: (host) => host.state(),
  after: (state, _options, crash, random) => StorageHost.after(state, crash, random),
  situation: (state, crash, random) => {
    const { disk, ledger } = StorageHost.after(state, crash, random);
    return `${crash.mode === 'killed'} ${ledger.version} ${digestOf(disk)}`;
  },
};
