import type { Deployment } from './deployment/deployment.js';
import type { SecondCopies } from './holders/second-copies.js';
import type { FileStore, StoredFile } from './types.js';

/** A store as the gateway sees it: with its memory, its part in a deployment and its siblings. */
export interface GatewayStore extends FileStore {
  /** Files in memory, if the store supports it. */
  readonly cached?: CachedFiles;
  /** The server's part in a deployment; undefined without a map. */
  readonly deployment?: Pick<
    Deployment,
    | 'origin'
    | 'secret'
    | 'mapNow'
    | 'ownerOf'
    | 'urlFor'
    | 'mayReturn'
    | 'reserveUsage'
    | 'liveServers'
  >;
  /**
   * Copies of other servers' staged files; undefined without a map, and for a process of a gateway
   * that does not own them.
   */
  readonly copies?: Pick<SecondCopies, 'receive' | 'leave' | 'findHere'>;
  /** Other processes of this machine, whose files this store serves, too. */
  readonly siblings?: {
    /** True if one of them issues keys of this origin. */
    readonly has: (origin: number) => boolean;
    /** Call this when one of them has restarted. */
    readonly lookAgain: () => void;
  };
}

/** A small file in memory, verified when it was loaded. */
export interface CachedFile {
  readonly key: string;
  readonly bytes: Buffer;
  /** When the file expires, in Unix milliseconds; Infinity if never. */
  readonly expiresAt: number;
}

/**
 * Files in memory, for a server that answers the same requests repeatedly: no I/O and no waiting. A
 * cached file is always the same object.
 */
export interface CachedFiles {
  /**
   * Undefined if it is not in memory; the file may still exist. Pass `known` if you have just
   * looked the file up, to save another lookup.
   */
  get(key: string, known?: Pick<StoredFile, 'expiresAt'>): CachedFile | undefined;
  /** True if its bytes are in memory; does not count as a use. */
  has(key: string): boolean;
  /**
   * True while `get` would return this file again, unless it has expired. It is cheaper than `get`,
   * but does not count as a use: a caller that keeps using a file calls `get` now and then.
   */
  isCurrent(file: CachedFile): boolean;
  /** Counts a read: the bytes were sent. */
  served(file: CachedFile): void;
}
