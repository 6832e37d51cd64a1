import {
  activeTest,
  beat,
  changelogReq,
  changeStatus,
  fetchStorageIds,
  getGroupName,
  getMyIp,
  getServerId,
  getStorageStatus,
  join,
  type Parameters,
  parameterReq,
  replicaChange,
  reportDiskUsage,
  Status,
  syncReport,
} from '@stevedore/protocol';
import { control, type Handler, idOfAddress, StatusError } from '@stevedore/wire';
import type { Cluster } from '../cluster.js';
import { SYNC_MAX_DELAY_SECONDS } from '../group.js';
import type { TrackerSession } from '../session.js';
import type { TrackerSettings } from '../tracker-options.js';

/** Requests of storages: settings, joins, heartbeats, disk usage and sync reports. */
export function membershipHandlers(
  cluster: Cluster,
  settings: TrackerSettings,
): Handler<TrackerSession>[] {
  const parameters = clusterParameters(settings);
  const now = (): number => settings.environment.uptimeMs();
  return [
    control(activeTest, () => undefined),
    control(parameterReq, () => parameters),
    control(join, (request, { session }: { session: TrackerSession }) => {
      const { group, member, status } = cluster.join(request, session.address, session, now());
      session.enter(group, member);
      return { status, sourceId: member.syncSource?.sourceId ?? '' };
    }),
    control(beat, (statistics, { session }: { session: TrackerSession }) => {
      session.joined().member.beat(statistics, now());
      return session.changes(now());
    }),
    control(reportDiskUsage, (usage, { session }: { session: TrackerSession }) => {
      session.joined().member.reportUsage(usage, now());
      return session.changes(now());
    }),
    control(syncReport, (reports, { session }: { session: TrackerSession }) => {
      const { group, member } = session.joined();
      const active = new Set(group.serving(now()).map(({ id }) => id));
      member.reportSynced(reports, (id) => active.has(id));
      return session.changes(now());
    }),
    control(replicaChange, (_, { session }: { session: TrackerSession }) => {
      // Ignored: this tracker is the leader and knows better.
      session.joined();
    }),
    control(changeStatus, (status, { session }: { session: TrackerSession }) => {
      session.joined().member.changeStatus(status);
    }),
    control(changelogReq, (request, { session }: { session: TrackerSession }) => {
      const member = session.hasJoined ? session.joined().member : undefined;
      if (member && request) throw new StatusError(Status.invalid, 'a joined storage names itself');
      const reader = request ? cluster.member(request.group, request.id) : member;
      if (!reader)
        throw new StatusError(
          Status.invalid,
          'the connection has not joined, and the request names no storage',
        );
      const text = cluster.log.since(reader.logPosition);
      reader.logPosition = cluster.log.end;
      return text;
    }),
  ];
}

/**
 * The cluster's settings for storages. All 26 lines are sent, because a C storage uses its
 * own default for a missing one, and its default address width differs from this tracker's.
 */
function clusterParameters(settings: TrackerSettings): Parameters {
  return new Map([
    ['use_storage_id', settings.storageIds.used ? '1' : '0'],
    ['id_type_in_filename', settings.storageIds.used ? 'id' : 'ip'],
    ['trust_storage_server_id', '1'],
    ['response_ip_addr_size', settings.addressWidth === 'wide' ? '46' : '16'],
    ['storage_ip_changed_auto_adjust', '1'],
    ['storage_sync_file_max_delay', String(SYNC_MAX_DELAY_SECONDS)],
    ['store_path', '0'],
    ['reserved_storage_space', `${settings.reservedSpaceMegabytes}MB`],
    ['use_trunk_file', '0'],
    ['slot_min_size', '256'],
    ['slot_max_size', '1048576'],
    ['trunk_alloc_alignment_size', '0'],
    ['trunk_file_size', '67108864'],
    ['trunk_create_file_advance', '0'],
    ['trunk_create_file_time_base', '02:00'],
    ['trunk_create_file_interval', '86400'],
    ['trunk_create_file_space_threshold', '0'],
    ['trunk_init_check_occupying', '0'],
    ['trunk_init_reload_from_binlog', '0'],
    ['trunk_free_space_merge', '1'],
    ['delete_unused_trunk_files', '0'],
    ['trunk_compress_binlog_min_interval', '86400'],
    ['trunk_compress_binlog_interval', '86400'],
    ['trunk_compress_binlog_time_base', '03:00'],
    ['trunk_binlog_max_backups', '7'],
    ['store_slave_file_use_link', '0'],
  ]);
}

/** Addresses, ids and groups of storages. */

/** Most lines in one answer. */
const MAX_LINES = 256;

export function identityHandlers(
  cluster: Cluster,
  settings: TrackerSettings,
): Handler<TrackerSession>[] {
  const { storageIds, environment } = settings;
  return [
    control(getMyIp, ({ group, port }, { session }: { session: TrackerSession }) => {
      const entry = storageIds.at(session.address, port, group);
      return entry ? entry.addresses.join(',') : session.address;
    }),
    control(getServerId, ({ group, address, port }) => {
      if (!storageIds.used) return idOfAddress(address);
      const entry = storageIds.at(address, port, group);
      if (!entry) throw new StatusError(Status.notFound, `no storage ${address}:${port}`);
      return entry.id;
    }),
    control(getStorageStatus, ({ group: name, address, port }) => {
      const group = cluster.group(name);
      const id = storageIds.at(address, port, name)?.id;
      const member = group.members.find((each) =>
        id === undefined ? each.address === address : each.id === id,
      );
      if (!member) throw new StatusError(Status.notFound, `no storage ${address}:${port}`);
      return { ...member.brief(), status: group.statusOf(member, environment.uptimeMs()) };
    }),
    control(getGroupName, ({ address, port }, { session }: { session: TrackerSession }) => {
      if (!storageIds.used) throw new StatusError(Status.notSupported, 'storages have no ids');
      const entry = storageIds.at(address === '' ? session.address : address, port);
      if (!entry) throw new StatusError(Status.notFound, `no storage at port ${port}`);
      return { group: entry.group };
    }),
    control(fetchStorageIds, ({ start, allowEmpty }) => {
      const { lines } = storageIds;
      if (!storageIds.used) {
        if (!allowEmpty) throw new StatusError(Status.notSupported, 'storages have no ids');
        return { total: 0, lines: [] };
      }
      if (start < 0 || start >= lines.length) {
        throw new StatusError(Status.invalid, `there are ${lines.length} ids`);
      }
      return { total: lines.length, lines: lines.slice(start, start + MAX_LINES) };
    }),
  ];
}
