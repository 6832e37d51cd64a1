import type { HeldCopies, Staging } from '@stevedore/staging';
import type { DeploymentContext } from '../deployment/gateways.js';
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
  /** False: it is open for maintenance, and gives nothing back to adopters. */
  readonly serves: boolean;
  /** Sibling processes that share a data directory with this one. */
  readonly siblings?: readonly SiblingOptions[] | undefined;
}
