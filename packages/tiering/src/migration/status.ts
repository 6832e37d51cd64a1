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
  /** Slices with a row. */
  readonly slices: FileCounts;
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
  /** Metadata load of an interval without small files; 0 without competition. */
  readonly metadataAloneBytes: number;
  /** Share of it that metadata gets beside small files, over the last seconds. */
  readonly metadataKeptShare: number;
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
  /** Of the coming interval. */
  readonly forecastBytes: number;
  /** Mean |F − O| since the start, bytes. */
  readonly meanErrorBytes: number;
  readonly busyAnswersTotal: number;
}

type Values = readonly (readonly [labels: string, value: number])[];
type Metric = readonly [
  name: string,
  kind: 'counter' | 'gauge',
  help: string,
  of: (status: MigrationStatus) => number | Values,
];

const classes =
  (of: (each: ClassStatus) => number) =>
  ({ load }: MigrationStatus): Values => [
    ['{class="metadata"}', of(load.metadata)],
    ['{class="small_file"}', of(load.smallFile)],
  ];
const outcomes = ({ moves }: MigrationStatus): Values =>
  Object.entries(moves).map(([outcome, count]) => [`{outcome="${outcome}"}`, count]);

const served = classes((each) => each.servedBytes);
const waiting = classes((each) => each.waitingBytes);
const forecast = classes((each) => each.forecastBytes);
const meanError = classes((each) => each.meanErrorBytes);
const busyAnswers = classes((each) => each.busyAnswersTotal);

const METRICS: readonly Metric[] = [
  ['load_served_bytes', 'gauge', 'Bytes served in the last interval.', served],
  [
    'load_waiting_bytes',
    'gauge',
    'Bytes of requests waiting at the end of the last interval.',
    waiting,
  ],
  ['load_forecast_bytes', 'gauge', 'Bytes forecast for the next interval.', forecast],
  ['load_forecast_error_bytes', 'gauge', 'Mean absolute error of the forecasts.', meanError],
  ['busy_answers_total', 'counter', 'Requests answered with "busy".', busyAnswers],
  [
    'load_capacity_bytes',
    'gauge',
    'Bytes that the disk can serve in an interval.',
    (now) => now.capacityBytes,
  ],
  [
    'metadata_kept_share',
    'gauge',
    'Share of its stand-alone load that metadata gets while small files are served too.',
    (now) => now.metadataKeptShare,
  ],
  [
    'small_file_room_bytes',
    'gauge',
    'Bytes of small-file requests admitted in an interval; 0: no limit.',
    (now) => now.smallFileRoomBytes,
  ],
  [
    'load_to_move_bytes',
    'gauge',
    'Bytes of small-file load to move to other groups.',
    (now) => now.loadToMoveBytes,
  ],
  ['threshold_bytes', 'gauge', 'Largest file that becomes a row.', (now) => now.thresholdBytes],
  ['rows', 'gauge', 'Files kept as rows.', (now) => now.rows.files],
  ['rows_bytes', 'gauge', 'Bytes of files kept as rows.', (now) => now.rows.bytes],
  ['slice_rows', 'gauge', 'Slices kept as rows.', (now) => now.slices.files],
  ['slice_rows_bytes', 'gauge', 'Bytes of slices kept as rows.', (now) => now.slices.bytes],
  ['rows_room_bytes', 'gauge', 'Most bytes that all rows may use.', (now) => now.roomBytes],
  ['remote_files', 'gauge', 'Files whose bytes are in another group.', (now) => now.remote.files],
  ['remote_files_bytes', 'gauge', 'Bytes of files in other groups.', (now) => now.remote.bytes],
  [
    'remote_deletions_waiting',
    'gauge',
    'Copies in other groups waiting for deletion.',
    (now) => now.unwantedCopies,
  ],
  [
    'remote_copies_open',
    'gauge',
    'Copies in other groups that may exist: the reply to their upload was lost.',
    (now) => now.openCopies,
  ],
  [
    'remote_orphans_total',
    'counter',
    'Orphaned copies found in other groups and deleted.',
    (now) => now.orphans,
  ],
  ['moves_total', 'counter', 'Moves of files, by outcome.', outcomes],
  ['moved_bytes_total', 'counter', 'Bytes moved.', (now) => now.movedBytes],
  ['revokes_total', 'counter', 'Moves revoked because the file changed.', (now) => now.revokes],
];

/** The status in the Prometheus format. Pure. */
export function prometheusText(status: MigrationStatus): string {
  const lines = METRICS.flatMap(([name, kind, help, of]) => {
    const values = of(status);
    const all: Values = typeof values === 'number' ? [['', values]] : values;
    return [
      `# HELP stevedore_${name} ${help}`,
      `# TYPE stevedore_${name} ${kind}`,
      ...all.map(([labels, value]) => `stevedore_${name}${labels} ${value}`),
    ];
  });
  return `${lines.join('\n')}\n`;
}
