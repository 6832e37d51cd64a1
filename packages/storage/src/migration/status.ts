import type { MetadataServerRecord } from '@stevedore/protocol';
import type { IoServerStatus } from '../io-tier/known-servers.js';
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
  readonly usedShare: number;
  /** Files that are rows. */
  readonly rows: { readonly files: number; readonly bytes: number };
  /** The I/O servers that are known. */
  readonly ioServers: readonly IoServerStatus[];
  /** Files that are on them. */
  readonly ioFiles: { readonly files: number; readonly bytes: number };
  /** Appends that clients wrote to them by themselves, since the start. */
  readonly writtenOnward: number;
  /** Parts that are yet to be deleted there. */
  readonly waitingDeletions: number;
  /** Parts that no record knew, found there and deleted since the start. */
  readonly orphans: number;
  /** Nothing goes to other metadata servers, and what is there comes home. */
  readonly isRecalling: boolean;
  /** Metadata servers of other groups, as they last told. */
  readonly neighbours: readonly MetadataServerRecord[];
  /** Files whose bytes they have. */
  readonly guestFiles: { readonly files: number; readonly bytes: number };
  readonly forwarding: ForwardingStatus;
  /** What is yet to be deleted there. */
  readonly waitingDepartures: number;
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

export interface ForwardingStatus {
  /** Files of this storage that others answer for. */
  readonly given: number;
  /** Files of others that this storage answers for. */
  readonly taken: number;
  /** Requests for files of others that were passed on to their homes. */
  readonly passedOn: number;
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
    'Served in the last interval.',
    classes((each) => each.servedBytes),
  );
  metric(
    'load_waiting_bytes',
    'gauge',
    'Waiting as it ended.',
    classes((each) => each.waitingBytes),
  );
  metric(
    'load_forecast_bytes',
    'gauge',
    'Forecast for the coming interval.',
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
    'Requests told to come back.',
    classes((each) => each.busyAnswersTotal),
  );
  metric('load_capacity_bytes', 'gauge', 'B_logic of an interval.', [['', status.capacityBytes]]);
  metric(
    'metadata_kept_share',
    'gauge',
    'Of its load alone, what metadata has beside small files.',
    [['', status.metadataKeptShare]],
  );
  metric('small_file_room_bytes', 'gauge', 'Small files that may begin in an interval; 0: any.', [
    ['', status.smallFileRoomBytes],
  ]);
  metric('load_to_move_bytes', 'gauge', 'Small-file load that has to go.', [
    ['', status.loadToMoveBytes],
  ]);
  metric('threshold_bytes', 'gauge', 'Largest file that becomes a row.', [
    ['', status.thresholdBytes],
  ]);
  metric('rows', 'gauge', 'Files that are rows.', [['', status.rows.files]]);
  metric('rows_bytes', 'gauge', 'Their bytes.', [['', status.rows.bytes]]);
  metric(
    'io_server_active',
    'gauge',
    'I/O servers; 1 where the server takes files.',
    status.ioServers.map(({ id, isActive }) => [`{server="${id}"}`, isActive ? 1 : 0]),
  );
  metric('io_files', 'gauge', 'Files that are at I/O servers.', [['', status.ioFiles.files]]);
  metric('io_files_bytes', 'gauge', 'Their bytes.', [['', status.ioFiles.bytes]]);
  metric('io_written_onward_total', 'counter', 'Appends that clients wrote to I/O servers.', [
    ['', status.writtenOnward],
  ]);
  metric('io_deletions_waiting', 'gauge', 'Parts yet to be deleted at I/O servers.', [
    ['', status.waitingDeletions],
  ]);
  metric('io_orphans_total', 'counter', 'Parts that no record knew, found and deleted.', [
    ['', status.orphans],
  ]);
  metric('metadata_servers', 'gauge', 'Metadata servers of other groups that are known.', [
    ['', status.neighbours.length],
  ]);
  metric('guest_files', 'gauge', 'Files whose bytes another metadata server has.', [
    ['', status.guestFiles.files],
  ]);
  metric('guest_files_bytes', 'gauge', 'Their bytes.', [['', status.guestFiles.bytes]]);
  metric('forwarded_files', 'gauge', 'Files that another metadata server answers for.', [
    ['', status.forwarding.given],
  ]);
  metric('leased_files', 'gauge', 'Files of others that this storage answers for.', [
    ['', status.forwarding.taken],
  ]);
  metric('passed_on_total', 'counter', 'Reads of files of others that went on to their homes.', [
    ['', status.forwarding.passedOn],
  ]);
  metric('guest_deletions_waiting', 'gauge', 'Copies yet to be deleted there.', [
    ['', status.waitingDepartures],
  ]);
  metric(
    'moves_total',
    'counter',
    'Moves between row and data file, by how they ended.',
    Object.entries(moves).map(([outcome, count]) => [`{outcome="${outcome}"}`, count]),
  );
  metric('moved_bytes_total', 'counter', 'Bytes that were moved.', [['', status.movedBytes]]);
  metric('revokes_total', 'counter', 'Moves that a change of the file ended.', [
    ['', status.revokes],
  ]);
  return `${lines.join('\n')}\n`;
}
