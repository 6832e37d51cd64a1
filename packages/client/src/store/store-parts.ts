import type { HeldCopies, Staging } from '@stevedore/staging';
import type { Returns } from '../adoption/returning.js';
import type { DeploymentContext } from '../deployment/gateways.js';
import type { FilesElsewhere } from '../holders/files-elsewhere.js';
import type { SiblingOptions } from '../holders/holders.js';
import type { StoreOptions } from '../options.js';
import type { Clients } from './cluster.js';

/** What `open()` makes a store of. */
export interface StoreParts {
  readonly options: StoreOptions;
  readonly staging: Staging;
  readonly clients: Clients;
  readonly trackers: readonly string[];
  readonly now: () => number;
  /** Stops the embedded node, if this store started one. */
  readonly closeNode: () => Promise<void>;
  readonly deployed?: DeploymentContext | undefined;
  /** Copies of other servers' staged files. */
  readonly held?: HeldCopies | undefined;
  /** Gives adopters what this directory alone has; undefined for maintenance. */
  readonly returned?: ((elsewhere: FilesElsewhere) => Returns) | undefined;
  /** Sibling processes that share a data directory with this one. */
  readonly siblings?: readonly SiblingOptions[] | undefined;
}
