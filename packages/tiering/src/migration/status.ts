import type { ClassInterval, RequestClass } from '../scheduler/scheduler.js';

/** The state of migration, for operators: the last interval, and totals since the start. */
export interface MigrationStatus {
  /** False if files do not move by load or threshold. */
  readonly migrates: boolean;
  readonly isPaused: boolean;
  readonly isDryRun: boolean;
  readonly intervalMs: number;
  /** B_logic for one interval. */
  readonly capacityBytes: number;
  readonly thresholdBytes: number;
  /** Share of the tier's space that rows use. */
  readonly usedShare: number;
  /** Files kept as rows. */
  readonly rows: FileCounts;
  /** Most bytes of all rows together. */
  readonly roomBytes: number;
  /** Files whose bytes are in another group. */
  readonly remote: FileCounts;
  /** Unwanted copies there that are not deleted yet. */
  readonly unwantedCopies: number;
  /** Copies whose upload has no known result. */
  readonly openCopies: number;
  /** Orphans found and deleted since the start. */
  readonly orphans: number;
  /** Nothing goes to other groups, and what is there comes home. */
  readonly isRecalling: boolean;
  readonly intervals: number;
  readonly load: Readonly<Record<RequestClass, ClassStatus>>;
  /** Small-file load that may start in an interval; 0: no limit. */
  readonly smallFileRoomBytes: number;
  readonly loadToMoveBytes: number;
  readonly moves: Readonly<Record<'moved' | 'revoked' | 'refused' | 'failed', number>>;
  readonly movedBytes: number;
  readonly revokes: number;
  readonly queued: number;
}

export interface FileCounts {
  readonly files: number;
  readonly bytes: number;
}

export interface ClassStatus extends ClassInterval {
  /** L' of the last interval, what the forecast is of: bytes served, and those that waited. */
  readonly loadBytes: number;
  /** L' of the coming interval. */
  readonly forecastBytes: number;
  /** Mean |F − L'| since the start, bytes. */
  readonly meanErrorBytes: number;
  readonly busyAnswersTotal: number;
}
