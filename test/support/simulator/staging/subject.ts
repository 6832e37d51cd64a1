import type { Subject } from '../subject.js';
import {
  type HostOptions,
  type HostState,
  type StagingCrash,
  StagingHost,
  situationOf,
} from './host.js';
import { SCRIPTS } from './scripts.js';

/** Staging: container, FileMap and Merge Task, over a trunk store in memory. */
export const STAGING: Subject<StagingHost, HostState, StagingCrash, HostOptions> = {
  scripts: SCRIPTS,
  atATime: 12,
  crashes: [
    { mode: 'killed', harm: 'kept' },
    { mode: 'killed', harm: 'deleted' },
    { mode: 'lost', harm: 'kept' },
    { mode: 'lost', harm: 'stale' },
    { mode: 'kept', harm: 'damaged' },
    { mode: 'subset', harm: 'torn' },
    { mode: 'subset', harm: 'deleted' },
    { mode: 'torn', harm: 'stale' },
    { mode: 'torn', harm: 'deleted' },
  ],
  faults: [
    { code: 'EIO', once: true },
    { code: 'EIO', once: false },
    { code: 'ENOSPC', once: true },
    { code: 'ENOSPC', once: true, short: true },
    { code: 'ENOSPC', once: false },
    { code: 'EMFILE', once: true },
    { code: 'EMFILE', once: false },
  ],
  crashesAfterFaults: [
    { mode: 'kept', harm: 'kept' },
    { mode: 'lost', harm: 'stale' },
    { mode: 'subset', harm: 'kept' },
  ],
  crashesBehindFault: 2,
  least: { points: 900, starts: 2000, faults: 1500 },
  host: (options, random) => new StagingHost(options ?? {}, random),
  state: (host) => host.state(),
  after: (state, options, crash, random) => StagingHost.after(state, options ?? {}, crash, random),
  situation: situationOf,
};
