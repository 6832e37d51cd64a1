import { setTimeout as sleep } from 'node:timers/promises';
import { deferred } from '@stevedore/async';
import type { FileCacheStats } from '@stevedore/cache';
import { encodeStatistics, formatFileId, type StorageStatistics } from '@stevedore/protocol';
import { type ConnectionEnds, FrameServer, nowSeconds } from '@stevedore/wire';
import type { TakeOptions } from './handlers/upload.js';
import { openStorage, type StorageBackend } from './open-storage.js';
import type { StorageSession } from './replication/members.js';
import type { ReplicationStatus } from './replication/peer-sender.js';
import { Peers } from './replication/peers.js';
import { type StorageOptions, type StorageSettings, storageSettings } from './storage-options.js';
import { TrackerLink } from './tracker-link.js';

/** How long a start waits for the trackers. */
const ANSWER_WAIT_MS = 2000;

/** A running storage daemon. */
export interface Storage extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  readonly group: string;
  /** Resolves once a tracker counts it as active, so that uploads are sent to it. */
  active(): Promise<void>;
  /** Statistics of the cache of small files and slices. */
  cacheStats(): FileCacheStats;
  /** Connections, operations and bytes since the start, as reported to trackers. */
  statistics(): StorageStatistics;
  /** Stores a file that this process writes to this storage's disk; resolves with its id. */
  take(options: TakeOptions): Promise<string>;
  /** How far the other members of the group are behind. */
  replicationStatus(): ReplicationStatus;
  /** Stops listening, briefly lets requests in flight finish, then closes everything. */
  close(): Promise<void>;
}

/**
 * Starts a storage. Resolves when it listens and the trackers that answer within 2 s have admitted
 * it (see `active`). Rejects with StartError or OptionError, also if a tracker refuses it. Without a
 * backend, all files are on the disk.
 */
export async function startStorage(
  options: StorageOptions,
  openBackend?: (settings: StorageSettings) => Promise<StorageBackend | undefined>,
): Promise<Storage> {
  const settings = storageSettings(options);
  const { onError, host, group } = settings;
  const opened = await openStorage(settings, await openBackend?.(settings));
  const server = new FrameServer<StorageSession>({
    role: 'storage',
    host,
    port: settings.port,
    limits: settings.limits,
    access: settings.access,
    handlers: opened.handlers,
    closesAfterInvalid: true,
    onError,
    openSession: ({ peerAddress }: ConnectionEnds) => ({ address: peerAddress, peer: '' }),
    closeSession: () => {},
  });
  try {
    await server.listen();
  } catch (error) {
    await opened.close();
    throw error;
  }
  await opened.saveState();

  const { port } = server;
  const statistics = (): StorageStatistics =>
    opened.counters.statistics(server.counts, opened.service.replication);
  const { service, firstCopy, joinedAtSeconds } = opened;
  const startedAtSeconds = nowSeconds(settings.environment);
  const active = deferred<void>();
  const links = settings.trackers.map(
    (tracker) =>
      new TrackerLink({
        tracker,
        service,
        port,
        joinedAtSeconds,
        startedAtSeconds,
        firstCopy,
        onActive: active.resolve,
        statistics: () => encodeStatistics(statistics()),
      }),
  );
  for (const link of links) link.start();
  const peers = new Peers(service);
  peers.start();
  service.replication.passTo(peers);
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= (async () => {
      await Promise.all(links.map((link) => link.close()));
      await server.close();
      await peers.close();
      await opened.close();
    })();
    return closed;
  };
  const answers = Promise.all(links.map((link) => link.answered));
  try {
    await Promise.race([answers, sleep(ANSWER_WAIT_MS, undefined, { ref: false })]);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    host,
    port,
    group,
    active: () => active.promise,
    cacheStats: () => service.cache.stats(),
    statistics,
    take: async (options) => formatFileId(await opened.take(options)),
    replicationStatus: () => peers.status(),
    close,
    [Symbol.asyncDispose]: close,
  };
}
