import {
  type ConnectionCounts,
  deleteGroup,
  deleteStorage,
  getLeader,
  listAllGroups,
  listOneGroup,
  listStorage,
  Status,
  setTrunkServer,
  storageClusterStat,
  storageVolumeStat,
  trackerClusterStat,
  trackerGetStatus,
} from '@stevedore/protocol';
import { control, type Handler, nowSeconds, PROTOCOL_VERSION, StatusError } from '@stevedore/wire';
import type { Cluster } from '../cluster.js';
import type { Group } from '../group.js';
import { groupRecord, storageRecord, storageStat, volume } from '../records.js';
import type { TrackerSession } from '../session.js';
import type { TrackerSettings } from '../tracker-options.js';

/** What tools and operators ask: lists, states, removals. A lone tracker is the leader. */
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
      return undefined;
    }),
    control(deleteGroup, ({ group }) => {
      cluster.deleteGroup(group);
      return undefined;
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
