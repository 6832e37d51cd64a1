import {
  fetchTrunkFileId,
  reportIpChanged,
  reportStatus,
  reportTrunkFileId,
  reportTrunkFree,
  Status,
  StorageStatus,
  syncDestQuery,
  syncDestReq,
  syncNotify,
  syncSrcReq,
} from '@stevedore/protocol';
import { control, type Handler, nowSeconds, StatusError } from '@stevedore/wire';
import type { Cluster } from '../cluster.js';
import type { Group } from '../group.js';
import { mostLikelyFirst } from '../group.js';
import type { Member } from '../member.js';
import type { TrackerSession } from '../session.js';
import type { TrackerSettings } from '../tracker-options.js';

/**
 * Arranges first copies: a new storage asks for a source, which learns of it and reports when
 * the copy is complete. FastDFS's trunk files are off in this cluster, so no storage is a
 * trunk server.
 */
export function syncHandlers(
  cluster: Cluster,
  settings: TrackerSettings,
): Handler<TrackerSession>[] {
  const { environment, storageIds } = settings;
  const { init, deleted, ipChanged } = StorageStatus;
  return [
    control(syncDestReq, (_, { session }: { session: TrackerSession }) => {
      const { group, member } = session.joined();
      if (!hasPeers(group, member)) {
        member.copyFrom(undefined);
        return undefined;
      }
      const others = group.readable(environment.uptimeMs()).filter((each) => each !== member);
      // It may have been the source of files that not all other members have.
      const [peer] = mostLikelyFirst(others, member.id);
      if (!peer) throw new StatusError(Status.notFound, 'no active storage to copy from');
      const source = { sourceId: peer.id, untilSeconds: nowSeconds(environment) };
      member.copyFrom(source);
      return source;
    }),
    control(
      syncDestQuery,
      (_, { session }: { session: TrackerSession }) => session.joined().member.syncSource,
    ),
    control(syncNotify, (source, { session }: { session: TrackerSession }) => {
      const { group, member } = session.joined();
      if (source.sourceId === '') {
        member.confirmSource(undefined);
        return undefined;
      }
      const peer = group.find(source.sourceId);
      if (!peer || peer.status === deleted) {
        throw new StatusError(Status.notFound, `no storage ${source.sourceId}`);
      }
      member.confirmSource(source);
    }),
    control(syncSrcReq, ({ group, id }) => {
      const member = cluster.member(group, id);
      if (member.status === init || member.status === deleted || member.status === ipChanged) {
        throw new StatusError(Status.notFound, `storage ${id} takes no copies`);
      }
      return member.syncSource;
    }),
    control(reportStatus, ({ group, brief }) => {
      cluster.member(group, brief.id).reported(brief.status);
    }),
    control(reportIpChanged, (change, { session }: { session: TrackerSession }) => {
      if (storageIds.used) throw new StatusError(Status.notSupported, 'storages have ids');
      if (change.newAddress !== session.address) {
        throw new StatusError(Status.invalid, `${change.newAddress} is not the caller's address`);
      }
      const member = cluster.member(change.group, change.oldAddress);
      member.changeStatus(ipChanged);
      const { group, newAddress } = change;
      cluster.log.add(nowSeconds(environment), group, member.id, ipChanged, newAddress);
    }),
    control(fetchTrunkFileId, (_, { session }: { session: TrackerSession }) => {
      session.joined();
      return 0;
    }),
    ...[reportTrunkFileId, reportTrunkFree].map((command) =>
      control(command, (_: number, { session }: { session: TrackerSession }) => {
        session.joined();
        throw new StatusError(Status.invalid, 'no storage is a trunk server here');
      }),
    ),
  ];
}

/** True if other members of the group may have files. */
function hasPeers(group: Group, member: Member): boolean {
  const { init, deleted, ipChanged } = StorageStatus;
  const without: readonly number[] = [init, deleted, ipChanged];
  return group.members.some((each) => each !== member && !without.includes(each.status));
}
