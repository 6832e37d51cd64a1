import type { ClassInterval, RequestClass } from '../scheduler/scheduler.js';

/** What migration is doing, for operators: the last interval, and sums since the start. */
export interface MigrationStatus {
  /** False: files are not moved by load or threshold. */
  readonly migrates: boolean;
  readonly isPaused: boolean;
  readonly isDryRun: boolean;
  readonly intervalMs: number;
  /** B_logic for one interval. */
  readonly capacityBytes: number;
  readonly thresholdBytes: number;
  /** Of the room for rows, what they take. */
  readonly usedShare: number;
  /** Files that are rows. */
  readonly rows: FileCounts;
  /** Slices of which there is a row beside their trunk. */
  readonly slices: FileCounts;
  /** What all rows together may hold. */
  readonly roomBytes: number;
  /** Files whose bytes are in another group. */
  readonly away: FileCounts;
  /** Copies there that are yet to be deleted. */
  readonly waitingDepartures: number;
  /** Copies that were begun and whose outcome is unknown. */
  readonly openCopies: number;
  /** Copies that no record knew, found and deleted since the start. */
  readonly orphans: number;
  /** Nothing goes to other groups, and what is there comes home. */
  readonly isRecalling: boolean;
  readonly intervals: number;
  readonly load: Readonly<Record<RequestClass, ClassStatus>>;
  /** Metadata of an interval if no small file were beside it; 0: none is. */
  readonly metadataAloneBytes: number;
  /** The share of that which metadata has had served beside them, as the last seconds show it. */
  readonly metadataKeptShare: number;
  /** Small-file load of an interval that may begin; 0: any. */
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
  /** Of the coming interval. */
  readonly forecastBytes: number;
  /** Mean |F − O| since the start, bytes. */
  readonly meanErrorBytes: number;
  readonly busyAnswersTotal: number;
}

/** The status as Prometheus reads it. Pure. */
export function prometheusText(status: MigrationStatus): string {
  const lines: string[] = [];
  const metric = (
    name: string,
    kind: 'counter' | 'gauge',
    help: string,
    values: readonly (readonly [string, number])[],
  ): void => {
    lines.push(`# HELP stevedore_${name} ${help}`, `# TYPE stevedore_${name} ${kind}`);
    for (const [labels, value] of values) lines.push(`stevedore_${name}${labels} ${value}`);
  };
  const { load, moves } = status;
  const classes = (of: (each: ClassStatus) => number): [string, number][] => [
    ['{class="metadata"}', of(load.metadata)],
    ['{class="small_file"}', of(load.smallFile)],
  ];
  metric(
    'load_served_bytes',
    'gauge',
    'Bytes served in the last interval.',
    classes((each) => each.servedBytes),
  );
  metric(
    'load_waiting_bytes',
    'gauge',
    'Bytes of requests waiting at the end of the last interval.',
    classes((each) => each.waitingBytes),
  );
  metric(
    'load_forecast_bytes',
    'gauge',
    'Bytes forecast for the next interval.',
    classes((each) => each.forecastBytes),
  );
  metric(
    'load_forecast_error_bytes',
    'gauge',
    'Mean absolute error of the forecasts.',
    classes((each) => each.meanErrorBytes),
  );
  metric(
    'busy_answers_total',
    'counter',
    'Requests answered as busy.',
    classes((each) => each.busyAnswersTotal),
  );
  metric('load_capacity_bytes', 'gauge', 'Bytes that the disk can serve in an interval.', [
    ['', status.capacityBytes],
  ]);
  metric(
    'metadata_kept_share',
    'gauge',
    'Share of its stand-alone load that metadata is served beside small files.',
    [['', status.metadataKeptShare]],
  );
  metric(
    'small_file_room_bytes',
    'gauge',
    'Bytes of small-file requests admitted in an interval; 0: no limit.',
    [['', status.smallFileRoomBytes]],
  );
  metric('load_to_move_bytes', 'gauge', 'Bytes of small-file load to move to other groups.', [
    ['', status.loadToMoveBytes],
  ]);
  metric('threshold_bytes', 'gauge', 'Largest file that becomes a row.', [
    ['', status.thresholdBytes],
  ]);
  metric('rows', 'gauge', 'Files that are rows.', [['', status.rows.files]]);
  metric('rows_bytes', 'gauge', 'Bytes of files that are rows.', [['', status.rows.bytes]]);
  metric('slice_rows', 'gauge', 'Slices that are rows too.', [['', status.slices.files]]);
  metric('slice_rows_bytes', 'gauge', 'Bytes of slices that are rows.', [
    ['', status.slices.bytes],
  ]);
  metric('rows_room_bytes', 'gauge', 'Bytes that all rows may hold.', [['', status.roomBytes]]);
  metric('away_files', 'gauge', 'Files whose bytes are in another group.', [
    ['', status.away.files],
  ]);
  metric('away_files_bytes', 'gauge', 'Bytes of files in other groups.', [['', status.away.bytes]]);
  metric('away_deletions_waiting', 'gauge', 'Copies in other groups yet to be deleted.', [
    ['', status.waitingDepartures],
  ]);
  metric(
    'away_copies_open',
    'gauge',
    'Copies in other groups that may or may not have been stored.',
    [['', status.openCopies]],
  );
  metric(
    'away_orphans_total',
    'counter',
    'Copies without a record that were found in other groups and deleted.',
    [['', status.orphans]],
  );
  metric(
    'moves_total',
    'counter',
    'Moves of files, by how they ended.',
    Object.entries(moves).map(([outcome, count]) => [`{outcome="${outcome}"}`, count]),
  );
  metric('moved_bytes_total', 'counter', 'Bytes moved.', [['', status.movedBytes]]);
  metric('revokes_total', 'counter', 'Moves revoked because the file changed.', [
    ['', status.revokes],
  ]);
  return `${lines.join('\n')}\n`;
}
