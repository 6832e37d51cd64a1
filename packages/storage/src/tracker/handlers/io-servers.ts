import { ioServerList, ioServerReport } from '@stevedore/protocol';
import { control, type Handler } from '../../net/handler.js';
import type { IoServers } from '../io-servers.js';
import type { TrackerSettings } from '../options.js';
import type { TrackerSession } from '../session.js';

/** What I/O servers report, and what storages ask about them. */
export function ioServerHandlers(
  servers: IoServers,
  { environment }: TrackerSettings,
): Handler<TrackerSession>[] {
  return [
    control(ioServerReport, (report, { session }: { session: TrackerSession }) => {
      servers.report(report, session.address, session, environment.uptimeMs());
      return undefined;
    }),
    control(ioServerList, () => servers.list(environment.uptimeMs())),
  ];
}
