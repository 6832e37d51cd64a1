import type { Disk } from '@stevedore/disk';
import type { RoomStats } from './container/acceptance.js';
import type { CopiesStats, StagedCopiesOptions } from './copies/staged-copies.js';
import type { HasMap } from './filemap/outbox.js';
import type { Counters } from './filemap/rows.js';
import type { MergeStats } from './merge/merge-task.js';
import type { TrunkStore } from './merge/trunk-store.js';
import type { OrphanStats } from './repair/orphan-watch.js';
import type { DamageEvent, DamageStats } from './repair/quarantine.js';
import type { ScrubStats } from './repair/scrub-watch.js';

/** What staging is opened with: its bounds, and everything from outside that it uses. */
export interface StagingOptions {
  readonly directory: string;
  /**
   * Called once the directory is this process's, with the origin of its keys, and before anything
   * is changed in FastDFS; gives the FastDFS to store trunks in.
   */
  readonly connect: (origin: number) => Promise<TrunkStore>;
  /** Gives a new directory its origin; default: a random one. */
  readonly origin?: () => Promise<number>;
  /** Changes are noted for the map of a deployment: `fileMap.outbox`. Default false. */
  readonly hasMap?: HasMap;
  readonly trunkBytes: number;
  readonly maxAgeMs: number;
  /**
   * Trunks that are not full are joined until they are, or have a file of this age; their files
   * get ids then. Default 0: every trunk stays as it was stored, and its files have ids at once.
   */
  readonly idMaxAgeMs?: number;
  readonly containerBytes: number;
  readonly retainBytes: number;
  readonly sync: boolean;
  readonly segmentBytes?: number;
  /** Bytes that must stay free on the disk. Default 64 MiB. */
  readonly minFreeBytes?: number;
  /** Bytes per second that compaction moves at the most. Default 8 MiB. */
  readonly compactionBytesPerSecond?: number;
  /** Age at which an upload that nobody finished is removed. Default: never. */
  readonly unfinishedAgeMs?: number;
  /** How often expired files are looked for and deleted. Default 10 s. */
  readonly expiryIntervalMs?: number;
  /**
   * Storages that must have a trunk before the copies on this disk may go; 0, the
   * default: two where the trunk's group has two or more active ones, else one.
   */
  readonly confirmCopies?: number;
  /** Bytes per second that the scrub in the background reads at the most; 0, the default: off. */
  readonly scrubBytesPerSecond?: number;
  /** Before its first walk, and after one that failed. Default 1 minute. */
  readonly scrubPauseMs?: number;
  /** Keeps a second copy of what is staged at a partner. */
  readonly copies?: StagedCopiesOptions;
  /** False: trunks that no record names are looked for when a check asks, and only then. */
  readonly findsOrphans?: boolean;
  /** How long storages may take to list what they took. Default 5 minutes. */
  readonly listingGraceMs?: number;
  /** Opening waits until a lost FileMap is rebuilt, as far as FastDFS answers. */
  readonly rebuildsFirst?: boolean;
  /** Called with how many trunks of all have been read back into a lost FileMap. */
  readonly onRebuild?: (done: number, all: number) => void;
  readonly disk?: Disk;
  readonly now: () => number;
  /** Unpredictable bytes, for keys and origins. */
  readonly randomFill: (target: Buffer) => void;
  /** Of the choice of a trunk's members: with the same one the same files make the same trunks. */
  readonly packingSeed: number;
}

export interface StagingEvents {
  /** A file has got its FastDFS id. */
  merged: [{ readonly key: string; readonly fileId: string }];
  trunk: [TrunkEvent];
  /** A copy of a file was found damaged: it is no longer read, and repaired if possible. */
  damage: [DamageEvent];
  /** Trouble in the background: it is retried; nothing acknowledged is lost. */
  error: [Error];
}

/** A trunk (or whole large file) that was stored and confirmed. */
export interface TrunkEvent {
  /** `whole` for a large file that goes by itself. */
  readonly kind: 'trunk' | 'whole';
  readonly taskId: string;
  readonly fileId: string;
  readonly files: number;
  readonly bytes: number;
  /** Share of the target that is filled, 0 to 1; 1 for a large file. */
  readonly fill: number;
  /** Milliseconds from the choice of its files to its confirmation. */
  readonly durationMs: number;
}

export interface StagingStats extends Counters, MergeStats {
  readonly trunks: number;
  /** Bytes of the container's segments and spooled files on disk. */
  readonly containerBytes: number;
  /** Trunks that too few storages have shown to have; this disk keeps its copies. */
  /** Uploads in several requests that have not ended, and their bytes. */
  readonly unfinishedUploads: number;
  readonly unfinishedBytes: number;
  readonly unconfirmedTrunks: number;
  /** Trunks in FastDFS that no record named. */
  readonly orphans: OrphanStats;
  /** Copies whose bytes are not those that were stored. */
  readonly damage: DamageStats;
  /** The scrub in the background. */
  readonly scrub: ScrubStats;
  readonly room: RoomStats;
  /** The second copy of what is staged; undefined without one. */
  readonly copies?: CopiesStats;
}
