import {
  activeTest,
  beat,
  changelogReq,
  changeStatus,
  join,
  parameterReq,
  replicaChange,
  reportDiskUsage,
  Status,
  syncReport,
} from '@stevedore/protocol';
import { control, type Handler, StatusError } from '@stevedore/wire';
import type { Cluster } from '../cluster.js';
import { clusterParameters } from '../parameters.js';
import type { TrackerSession } from '../session.js';
import type { TrackerSettings } from '../tracker-options.js';

/** What storages send: what are the settings, I join, I am alive, so much is free. */
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
      // In turns, an upload may be anywhere, so what all have sent counts.
      const mode = settings.storeServer === 'round-robin' ? 'all' : 'any';
      member.reportSynced(reports, (id) => active.has(id), mode);
      return session.changes(now());
    }),
    control(replicaChange, (_, { session }: { session: TrackerSession }) => {
      // The leader, which a lone tracker is, knows better.
      session.joined();
      return undefined;
    }),
    control(changeStatus, (status, { session }: { session: TrackerSession }) => {
      session.joined().member.changeStatus(status);
      return undefined;
    }),
    control(changelogReq, (request, { session }: { session: TrackerSession }) => {
      const member = session.hasJoined ? session.joined().member : undefined;
      if (!member && !request) throw new StatusError(Status.invalid, 'nobody asks for the log');
      if (member && request) throw new StatusError(Status.invalid, 'a joined storage names itself');
      const reader = member ?? cluster.member(request!.group, request!.id);
      const text = cluster.log.since(reader.logPosition);
      reader.logPosition = cluster.log.end;
      return text;
    }),
  ];
}
