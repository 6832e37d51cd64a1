import type { StorageStatistics } from './statistics.js';

/** What a tracker tells about a group, and about a storage. */

export interface GroupRecord {
  readonly name: string;
  readonly totalMegabytes: number;
  readonly freeMegabytes: number;
  readonly reservedMegabytes: number;
  readonly trunkFreeMegabytes: number;
  readonly storageCount: number;
  /** -1 when the servers of the group use different ports. */
  readonly storagePort: number;
  readonly readableCount: number;
  readonly writableCount: number;
  readonly currentWriteServer: number;
  readonly storePathCount: number;
  readonly subdirectoriesPerPath: number;
  /** -1 when the cluster does not merge by itself. */
  readonly currentTrunkFileId: number;
}

export interface StorageRecord {
  readonly status: number;
  /** 4 reads, 2 writes, 6 both, 0 neither. */
  readonly readWriteMode: number;
  readonly id: string;
  readonly address: string;
  readonly sourceId: string;
  readonly version: string;
  readonly joinedAtSeconds: number;
  /** 0 for a server that is not connected. */
  readonly startedAtSeconds: number;
  readonly totalMegabytes: number;
  readonly freeMegabytes: number;
  readonly reservedMegabytes: number;
  readonly uploadPriority: number;
  readonly storePathCount: number;
  readonly subdirectoriesPerPath: number;
  readonly currentWritePath: number;
  readonly storagePort: number;
  readonly statistics: StorageStatistics;
  readonly isTrunkServer: boolean;
}
