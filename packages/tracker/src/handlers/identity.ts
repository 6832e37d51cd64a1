import {
  fetchStorageIds,
  getGroupName,
  getMyIp,
  getServerId,
  getStorageStatus,
  Status,
} from '@stevedore/protocol';
import { control, type Handler, idOfAddress, StatusError } from '@stevedore/wire';
import type { Cluster } from '../cluster.js';
import type { TrackerSession } from '../session.js';
import type { TrackerSettings } from '../tracker-options.js';

/** Who is who: addresses, ids and groups of storages. */

/** Lines of one answer, so that it stays small. */
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
