import type { Deployment } from '../deployment/deployment.js';
import type { CachedFiles } from '../holders/files-in-memory.js';
import type { Holders } from '../holders/holders.js';
import type { SecondCopies } from '../holders/second-copies.js';
import type { FileStore } from './types.js';

/** A store as the gateway sees it: with its memory, its part in a deployment and its siblings. */
export interface GatewayStore extends FileStore {
  /** Files in memory, if the store supports it. */
  readonly cached?: CachedFiles;
  /** The server's part in a deployment; undefined without a map. */
  readonly deployment?: Deployment;
  /**
   * Copies of other servers' staged files; undefined without a map, and for a process of a gateway
   * that does not own them.
   */
  readonly copies?: SecondCopies;
  /** Other processes of this machine, whose files this store serves, too. */
  readonly siblings?: Holders;
}
