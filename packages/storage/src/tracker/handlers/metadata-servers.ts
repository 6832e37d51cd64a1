import { metadataServerReport } from '@stevedore/protocol';
import { control, type Handler } from '../../net/handler.js';
import type { Cluster } from '../cluster.js';
import { MetadataServers } from '../metadata-servers.js';
import type { TrackerSettings } from '../options.js';
import type { TrackerSession } from '../session.js';

/** What storages with a metadata tier tell of their load, and what they learn of the others. */
export function metadataServerHandlers(
  cluster: Cluster,
  { environment }: TrackerSettings,
): Handler<TrackerSession>[] {
  const servers = new MetadataServers(cluster);
  return [
    control(metadataServerReport, (load, { session }: { session: TrackerSession }) =>
      servers.report(load, session.address, environment.uptimeMs()),
    ),
  ];
}
