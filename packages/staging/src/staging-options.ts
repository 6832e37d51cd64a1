import type { Disk } from '@stevedore/disk';
import type { StagedCopiesOptions } from './copies/staged-copies.js';
import type { Publishes } from './filemap/outbox.js';
import type { TrunkStore } from './merge/trunk-store.js';

/**
 * The options of staging: its limits, and everything external that it uses. Those that the SDK has,
 * too, have its names: sizes are bytes, ages are milliseconds.
 */
export interface StagingOptions {
  readonly directory: string;
  /**
   * Called with the origin of its keys once the directory is locked and before anything is changed
   * in FastDFS. Returns the FastDFS to store trunks in.
   */
  readonly connect: (origin: number) => Promise<TrunkStore>;
  /** Chooses the origin of a new directory. Default: a random one. */
  readonly origin?: () => Promise<number>;
  /** What `fileMap.outbox` records for the map of a deployment. Default: nothing. */
  readonly publishes?: Publishes;
  readonly trunkSize: number;
  readonly mergeMaxAge: number;
  /**
   * Thin trunks are joined until they are full or have a file of this age; only then their files
   * get ids. Default 0: every trunk is final as stored, and its files have ids at once.
   */
  readonly idMaxAge?: number;
  readonly containerSize: number;
  readonly retain: number;
  /** sync: acknowledge files once they are durable; os: once they are in the page cache. */
  readonly durability: 'sync' | 'os';
  readonly segmentBytes?: number;
  /** Memory for files that were just staged. Default 0: they are read from the disk. */
  readonly tailBytes?: number;
  /** Bytes that must stay free on the disk. Default 64 MiB. */
  readonly minFreeBytes?: number;
  /** Maximum bytes per second that compaction moves. Default 8 MiB. */
  readonly compactionBytesPerSecond?: number;
  /** Age at which an unfinished upload is removed. Default: never. */
  readonly unfinishedAge?: number;
  /** Interval at which expired files are deleted. Default 10 s. */
  readonly expiryIntervalMs?: number;
  /**
   * Storages that must have a trunk before the copies on this disk may be removed. Default 0: two
   * if the trunk's group has two or more active storages, else one.
   */
  readonly confirmCopies?: number;
  /** Maximum bytes per second that the background scrub reads. Default 0: off. */
  readonly scrubRate?: number;
  /** Pause before its first walk, and after one that failed. Default 1 minute. */
  readonly scrubPauseMs?: number;
  /** Keeps a second copy of what is staged at a partner. */
  readonly copies?: StagedCopiesOptions;
  /** False: search for trunks without a record only when a check asks for it. */
  readonly findsOrphans?: boolean;
  /** How long storages may take to list files that they received. Default 5 minutes. */
  readonly listingGraceMs?: number;
  /** Wait at opening until a lost FileMap is rebuilt, as far as FastDFS answers. */
  readonly rebuildsFirst?: boolean;
  /** Called with the number of trunks read back into a lost FileMap, and of all such trunks. */
  readonly onRebuild?: (done: number, all: number) => void;
  readonly disk?: Disk;
  readonly now: () => number;
  /** Unpredictable bytes, for keys and origins. */
  readonly randomFill: (target: Buffer) => void;
  /** Seed for choosing a trunk's members: the same seed and files give the same trunks. */
  readonly packingSeed: number;
}
