import {
  addressText,
  type ConnectionCounts,
  deleteGroup,
  deleteStorage,
  type GroupRecord,
  getLeader,
  listAllGroups,
  listOneGroup,
  listStorage,
  Status,
  type StorageRecord,
  type StorageStat,
  setTrunkServer,
  storageClusterStat,
  storageVolumeStat,
  trackerClusterStat,
  trackerGetStatus,
  type Volume,
} from '@stevedore/protocol';
import { control, type Handler, nowSeconds, PROTOCOL_VERSION, StatusError } from '@stevedore/wire';
import type { Cluster } from '../cluster.js';
import type { Group } from '../group.js';
import type { Member } from '../member.js';
import type { TrackerSession } from '../session.js';
import type { TrackerSettings } from '../tracker-options.js';

/** Requests of tools and operators: lists, statuses, removals. A lone tracker is the leader. */
export function adminHandlers(
  cluster: Cluster,
  settings: TrackerSettings,
  connections: () => ConnectionCounts,
): Handler<TrackerSession>[] {
  const { environment, reservedSpaceMegabytes } = settings;
  const now = (): number => environment.uptimeMs();
  const width = () => settings.addressWidth;
  const startedAtSeconds = nowSeconds(environment);
  const startedMs = environment.uptimeMs();
  const groups = (list: readonly Group[]) =>
    list.map((group) => groupRecord(group, reservedSpaceMegabytes, now()));
  return [
    control(getLeader, (_, { session }: { session: TrackerSession }) => session.leaderText()),
    control(listAllGroups, () => groups(cluster.groups)),
    control(listOneGroup, ({ group }) => groups([cluster.group(group)])),
    control(
      listStorage,
      ({ group: name, id }) => {
        const group = cluster.group(name);
        const members = id === '' ? group.members : [cluster.member(name, id)];
        return members.map((each) => storageRecord(group, each, reservedSpaceMegabytes, now()));
      },
      width,
    ),
    control(deleteStorage, ({ group, id }) => {
      cluster.deleteStorage(group, id, now());
    }),
    control(deleteGroup, ({ group }) => {
      cluster.deleteGroup(group);
    }),
    control(setTrunkServer, () => {
      throw new StatusError(Status.notSupported, 'trunk files of FastDFS are off');
    }),
    control(trackerClusterStat, (filter, { session }: { session: TrackerSession }) => {
      if (filter.active === false || filter.leader === false) return [];
      return [
        {
          host: session.leaderText(),
          isLeader: true,
          isActive: true,
          connections: connections(),
          version: PROTOCOL_VERSION,
          startedAtSeconds,
          heardAtSeconds: 0,
        },
      ];
    }),
    control(storageClusterStat, ({ status, trunkServer }) => {
      const storages = cluster.groups
        .flatMap((group) => group.members.map((each) => storageStat(group, each, now())))
        .filter(
          (each) =>
            (trunkServer === undefined || each.isTrunkServer === trunkServer) &&
            (status === undefined || (each.status === status.value) === status.equals),
        );
      return { usesStorageIds: settings.storageIds.used, usesTrunkFiles: false, storages };
    }),
    control(storageVolumeStat, ({ disk, trunk, space }) => {
      const volumes = cluster.groups
        .map((group) => volume(group, reservedSpaceMegabytes, now()))
        .filter(
          (each) =>
            (disk === undefined || each.isDiskAvailable === disk) &&
            (trunk === undefined || each.isTrunkAvailable === trunk) &&
            (space === undefined || each.isDiskAvailable === space),
        );
      return { usesTrunkFiles: false, volumes };
    }),
    control(trackerGetStatus, () => {
      if (cluster.groups.length === 0) throw new StatusError(Status.notFound, 'no groups yet');
      const runningSeconds = Math.floor((environment.uptimeMs() - startedMs) / 1000);
      return { isLeader: true, runningSeconds, restartSeconds: 0 };
    }),
  ];
}

/** Groups and storages as the lists of a tracker show them. */

function groupRecord(group: Group, reservedMegabytes: number, nowMs: number): GroupRecord {
  const [port = -1, ...others] = new Set(group.members.map((member) => member.port));
  const paths = group.members.map((member) => member.joinRequest?.storePathCount ?? 0);
  return {
    name: group.name,
    ...group.room(nowMs),
    reservedMegabytes,
    trunkFreeMegabytes: 0,
    storageCount: group.members.length,
    storagePort: others.length === 0 ? port : -1,
    readableCount: group.readable(nowMs).length,
    writableCount: group.writable(nowMs).length,
    currentWriteServer: group.currentWriteServer(nowMs),
    storePathCount: Math.min(...paths),
    subdirectoriesPerPath: group.members[0]?.joinRequest?.subdirectoriesPerPath ?? 0,
    currentTrunkFileId: -1,
  };
}

function storageRecord(
  group: Group,
  member: Member,
  reservedMegabytes: number,
  nowMs: number,
): StorageRecord {
  const { joinRequest, usage } = member;
  return {
    status: group.statusOf(member, nowMs),
    readWriteMode: member.readWriteMode,
    id: member.id,
    address: member.address,
    sourceId: member.syncSource?.sourceId ?? '',
    version: joinRequest?.version ?? '',
    joinedAtSeconds: joinRequest?.joinedAtSeconds ?? 0,
    startedAtSeconds: member.connected ? (joinRequest?.startedAtSeconds ?? 0) : 0,
    totalMegabytes: usage.reduce((sum, path) => sum + path.totalMegabytes, 0),
    freeMegabytes: usage.reduce((sum, path) => sum + path.freeMegabytes, 0),
    reservedMegabytes,
    uploadPriority: joinRequest?.uploadPriority ?? 0,
    storePathCount: joinRequest?.storePathCount ?? 0,
    subdirectoriesPerPath: joinRequest?.subdirectoriesPerPath ?? 0,
    currentWritePath: member.currentWritePath,
    storagePort: member.port,
    statistics: member.statistics,
    isTrunkServer: false,
  };
}

function storageStat(group: Group, member: Member, nowMs: number): StorageStat {
  return {
    id: member.id,
    host: addressText(member.address, member.port),
    isTrunkServer: false,
    status: group.statusOf(member, nowMs),
    connections: member.statistics.connections,
    version: member.joinRequest?.version ?? '',
    startedAtSeconds: member.connected ? (member.joinRequest?.startedAtSeconds ?? 0) : 0,
    heardAtSeconds: member.heardAtSeconds,
  };
}

function volume(group: Group, reservedMegabytes: number, nowMs: number): Volume {
  const { totalMegabytes, freeMegabytes } = group.room(nowMs);
  const availableMegabytes = Math.max(freeMegabytes - reservedMegabytes, 0);
  return {
    group: group.name,
    totalMegabytes,
    freeMegabytes,
    reservedMegabytes,
    availableMegabytes,
    trunkFreeMegabytes: 0,
    isDiskAvailable: availableMegabytes > 0,
    isTrunkAvailable: false,
  };
}
