import { type ConnectionCounts, StorageStatus } from '@stevedore/protocol';
import { FrameServer, handlerTable } from '@stevedore/wire';
import { Cluster } from './cluster.js';
import { adminHandlers } from './handlers/admin.js';
import { identityHandlers, membershipHandlers } from './handlers/membership.js';
import { queryHandlers } from './handlers/queries.js';
import { syncHandlers } from './handlers/sync.js';
import { TrackerSession } from './session.js';
import { type TrackerOptions, trackerSettings } from './tracker-options.js';

/** A running tracker daemon. */
export interface Tracker extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  overview(): TrackerOverview;
  /** Stops listening, briefly lets requests in flight finish, then closes everything. */
  close(): Promise<void>;
}

/** The current state of a tracker. */
export interface TrackerOverview {
  readonly connections: ConnectionCounts;
  readonly groups: number;
  /** Number of storages by status; every status is listed. */
  readonly storages: Readonly<Record<keyof typeof StorageStatus, number>>;
}

/** Starts a tracker; resolves when it listens. Rejects with StartError or OptionError. */
export async function startTracker(options: TrackerOptions = {}): Promise<Tracker> {
  const settings = trackerSettings(options);
  const cluster = new Cluster(settings);
  const server: FrameServer<TrackerSession> = new FrameServer<TrackerSession>({
    ...settings,
    role: 'tracker',
    handlers: handlerTable([
      ...membershipHandlers(cluster, settings),
      ...syncHandlers(cluster, settings),
      ...identityHandlers(cluster, settings),
      ...queryHandlers(cluster, settings),
      ...adminHandlers(cluster, settings, () => server.counts),
    ]),
    closesAfterInvalid: false,
    openSession: (ends) => new TrackerSession(ends),
    closeSession: (session) => session.end(),
  });
  await server.listen();
  const { port } = server;
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= server.close();
    return closed;
  };
  const overview = (): TrackerOverview => ({
    connections: server.counts,
    groups: cluster.groups.length,
    storages: countStorages(cluster, settings.environment.uptimeMs()),
  });
  return { host: settings.host, port, overview, close, [Symbol.asyncDispose]: close };
}

function countStorages(cluster: Cluster, nowMs: number): TrackerOverview['storages'] {
  const names = Object.keys(StorageStatus) as (keyof typeof StorageStatus)[];
  const statuses = cluster.groups.flatMap((group) =>
    group.members.map((member) => group.statusOf(member, nowMs)),
  );
  const count = (name: keyof typeof StorageStatus): number =>
    statuses.filter((status) => status === StorageStatus[name]).length;
  return Object.fromEntries(
    names.map((name) => [name, count(name)]),
  ) as TrackerOverview['storages'];
}
