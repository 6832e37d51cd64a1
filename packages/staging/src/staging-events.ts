import type { RoomStats } from './container/acceptance.js';
import type { Counters } from './filemap/rows.js';
import type { MergeStats } from './merge/merge-task.js';
import type { OrphanStats } from './repair/orphan-watch.js';
import type { DamageEvent, DamageStats } from './repair/quarantine.js';
import type { ScrubStats } from './repair/scrub-watch.js';

/** What Staging tells of by itself, and its figures. */

export interface StagingEvents {
  merged: [{ readonly key: string; readonly fileId: string }];
  trunk: [TrunkEvent];
  /** A copy was found damaged; it is not read any more. */
  damage: [DamageEvent];
  error: [Error];
}

interface TrunkEvent {
  readonly kind: 'trunk' | 'whole';
  readonly taskId: string;
  readonly fileId: string;
  readonly files: number;
  readonly bytes: number;
  readonly fill: number;
  /** From the plan to its confirmation. */
  readonly durationMs: number;
}

export interface StagingStats extends Counters, MergeStats {
  readonly trunks: number;
  readonly containerBytes: number;
  /** Trunks that too few storages have shown to have; this disk keeps its copies. */
  readonly unconfirmedTrunks: number;
  readonly orphans: OrphanStats;
  readonly damage: DamageStats;
  readonly scrub: ScrubStats;
  readonly room: RoomStats;
}
