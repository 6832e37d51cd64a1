import {
  activeTest,
  beat,
  type ChangeList,
  getMyIp,
  join,
  parameterReq,
  reportDiskUsage,
} from '@stevedore/protocol';
import { control, type Handler } from '../../net/handler.js';
import type { Cluster } from '../cluster.js';
import type { TrackerSettings } from '../options.js';
import { clusterParameters } from '../parameters.js';
import type { TrackerSession } from '../session.js';

/** What storages send: who am I, what are the settings, I join, I am alive, so much is free. */
export function membershipHandlers(
  cluster: Cluster,
  settings: TrackerSettings,
): Handler<TrackerSession>[] {
  const parameters = clusterParameters(settings);
  const { environment } = settings;
  return [
    control(activeTest, () => undefined),
    control(getMyIp, (_, { session }: { session: TrackerSession }) => session.address),
    control(parameterReq, () => parameters),
    control(join, (request, { session }: { session: TrackerSession }) => {
      const joined = cluster.join(request, session.address, session, environment.now());
      session.enter(joined.group, joined.member);
      return { status: joined.status, sourceId: '' };
    }),
    control(beat, (_, { session }: { session: TrackerSession }) => {
      session.joined().member.heard(environment.now());
      return changes(session);
    }),
    control(reportDiskUsage, (usage, { session }: { session: TrackerSession }) => {
      session.joined().member.reportUsage(usage, environment.now());
      return changes(session);
    }),
  ];
}

/** Leader and members are told to a storage once per connection. */
function changes(session: TrackerSession): ChangeList {
  const { group, member } = session.joined();
  if (!member.mustBeTold()) return {};
  return { leader: session.leader(), members: group.members.map((each) => each.brief()) };
}
