import { FrameServer } from '../net/frame-server.js';
import { handlerTable } from '../net/handler.js';
import { Cluster } from './cluster.js';
import { adminHandlers } from './handlers/admin.js';
import { identityHandlers } from './handlers/identity.js';
import { membershipHandlers } from './handlers/membership.js';
import { queryHandlers } from './handlers/queries.js';
import { syncHandlers } from './handlers/sync.js';
import { type TrackerOptions, trackerSettings } from './options.js';
import { TrackerSession } from './session.js';

/** A running tracker daemon. */
export interface Tracker extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** Stops listening, lets requests under way finish for a moment, closes everything. */
  close(): Promise<void>;
}

/** Starts a tracker; resolves when it listens. Rejects with StartError or OptionError. */
export async function startTracker(options: TrackerOptions = {}): Promise<Tracker> {
  const settings = trackerSettings(options);
  const cluster = new Cluster(settings);
  const server: FrameServer<TrackerSession> = new FrameServer<TrackerSession>({
    role: 'tracker',
    host: settings.host,
    port: settings.port,
    limits: settings.limits,
    access: settings.access,
    handlers: handlerTable([
      ...membershipHandlers(cluster, settings),
      ...syncHandlers(cluster, settings),
      ...identityHandlers(cluster, settings),
      ...queryHandlers(cluster, settings),
      ...adminHandlers(cluster, settings, () => server.counts),
    ]),
    closesAfterInvalid: false,
    onError: settings.onError,
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
  return { host: settings.host, port, close, [Symbol.asyncDispose]: close };
}
