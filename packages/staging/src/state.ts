import type { Serial } from '@stevedore/async';
import type { Disk } from '@stevedore/disk';
import type { Room } from './accept/room.js';
import type { Changes } from './changes.js';
import type { Container } from './container/container.js';
import type { Spool } from './container/spool.js';
import type { Unfinished } from './container/unfinished.js';
import type { StagedCopies } from './copies/staged-copies.js';
import type { DirectoryLock } from './directory-lock.js';
import type { FileMap } from './filemap/filemap.js';
import type { KeyMaker } from './key.js';
import type { TrunkStore } from './merge/trunk-store.js';
import type { WaitingFiles } from './merge/waiting-files.js';
import type { Quarantine } from './repair/quarantine.js';
import type { StagingOptions } from './staging-options.js';

/**
 * The state of a staging directory: its files, their room, and which of their copies are damaged.
 * Nothing here runs by itself.
 */
export interface State {
  readonly options: StagingOptions;
  readonly now: () => number;
  readonly disk: Disk;
  readonly lock: DirectoryLock;
  readonly fileMap: FileMap;
  readonly container: Container;
  readonly spool: Spool;
  readonly unfinished: Unfinished;
  /** FastDFS. */
  readonly trunkStore: TrunkStore;
  /** The second copy of what is staged, at a partner. */
  readonly copies: StagedCopies | undefined;
  /** Part of every key that is made here. */
  readonly origin: number;
  readonly keys: KeyMaker;
  readonly room: Room;
  readonly files: WaitingFiles;
  readonly quarantine: Quarantine;
  readonly changes: Changes;
  /** Runs the work while no segment or spooled file is being removed. */
  readonly alone: Serial;
}
