import { randomFillSync, randomInt } from 'node:crypto';
import { rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { deferred } from '@stevedore/async';
import { type DeploymentMap, MapError, openMap } from '@stevedore/map';
import { unixTime } from '@stevedore/protocol';
import {
  DirectoryLock,
  type FsckReport,
  HeldCopies,
  type ScrubOptions,
  type ScrubReport,
  type StagedCopiesOptions,
  Staging,
  StoreError,
  type UpkeepOptions,
} from '@stevedore/staging';
import { Returns, setAside } from '../adoption/returning.js';
import type { Deployment } from '../deployment/deployment.js';
import { type DeploymentContext, joinDeployment } from '../deployment/gateways.js';
import { loadRun, placeOf, readInstance, saveRun } from '../deployment/instance.js';
import { Partners } from '../deployment/partners.js';
import type { OpenOptions } from '../given-options.js';
import type { SiblingOptions } from '../holders/holders.js';
import { parseStoreOptions, type StoreOptions, tailBytesOf } from '../options.js';
import { FastdfsTrunkStore } from '../put/fastdfs-trunk-store.js';
import {
  type Clients,
  type Cluster,
  connect,
  readClusterSecrets,
  startCluster,
} from './cluster.js';
import type { GatewayStore } from './gateway-store.js';
import { dataDirectory, otherWorkers } from './shared-directory.js';
import { LocalFileStore } from './store.js';
import type { FileStore, StoreStats } from './types.js';

/** A partner that does not acknowledge a batch within this time counts as down. */
const PARTNER_DEADLINE_MS = 5_000;
/** Below the time that clients and proxies wait for an answer. */
const SECOND_COPY_DEADLINE_MS = 20_000;

/**
 * Opens a store: locks the directory, starts the embedded FastDFS node if no
 * trackers are named, recovers what an earlier process left, and begins to merge.
 *
 * Rejects with StoreError: `invalid_option`, `directory_locked` (another process
 * has the directory), `directory_unusable`, `port_in_use`; with SqliteBindingError if
 * better-sqlite3 was compiled for another version of Node; with MapError if the map refuses
 * this server, or does not answer and a new directory needs an origin from it.
 */
export async function open(options: OpenOptions = {}): Promise<FileStore> {
  return (await openStore(options, { kind: 'serving' })).store;
}

export interface GatewayParts {
  /**
   * The directories of the other processes that share a data directory, if this is one of several. Then
   * `trackers` is required.
   */
  readonly siblings?: readonly SiblingOptions[];
  /** Of the embedded node of the process that started this one: it takes trunks as files. */
  readonly take?: Cluster['take'];
  /** Closed with the store. */
  readonly map?: DeploymentMap | undefined;
}

/** As `open`, for a gateway. */
export async function openForGateway(
  options: OpenOptions,
  parts: GatewayParts,
): Promise<GatewayStore> {
  return (await openStore(options, { kind: 'serving', ...parts })).store;
}

/** What a store is opened for. */
type Purpose =
  | (GatewayParts & { readonly kind: 'serving' })
  /** It acknowledges no files. `publishes`: everything makes the map the directory's own. */
  | {
      readonly kind: 'upkeep';
      readonly publishes: 'changes' | 'everything';
      readonly onRebuild: (done: number, all: number) => void;
    };

async function openStore(
  options: OpenOptions,
  purpose: Purpose,
): Promise<{ readonly staging: Staging; readonly store: LocalFileStore }> {
  const parsed = parseStoreOptions(options);
  const secrets = await readClusterSecrets(parsed.clusterSecretFile);
  const directory = resolve(parsed.directory);
  const upkeep = purpose.kind === 'upkeep' ? purpose : undefined;
  const { siblings, take, map: given } = purpose.kind === 'serving' ? purpose : {};
  const publishes = upkeep?.publishes ?? 'changes';
  if (!siblings && !upkeep) await assertNotShared(directory);
  const map = given ?? (parsed.map === '' ? undefined : await openMap(parsed.map));
  const identity = async () => ({
    instance: await readInstance(directory),
    place: await placeOf(directory),
    url: parsed.peerUrl === '' ? undefined : parsed.peerUrl,
    secret: publishes === 'everything' ? undefined : (await loadRun(directory)).secret,
  });
  if (map && !upkeep) await setAside(directory, map);
  const started = deferred<Deployment>();
  let cluster: Cluster | undefined;
  let clients: Clients | undefined;
  let store: LocalFileStore | undefined;
  let deployed: DeploymentContext | undefined;
  try {
    const staging = await Staging.open({
      ...parsed,
      directory,
      tailBytes: tailBytesOf(parsed.cacheSize),
      ...(map
        ? {
            publishes,
            origin: async () => {
              const joining = { ...(await identity()), origin: undefined };
              return (await joinDeployment(map, joining)).origin;
            },
          }
        : {}),
      connect: async (origin) => {
        // A server whose files were adopted must not merge, compact or delete.
        if (map) {
          const joining = { ...(await identity()), origin };
          deployed = {
            map,
            joining,
            joined: await joined(map, joining),
            lastRun: await loadRun(directory),
            saveRun: (run) => saveRun(directory, run),
            hasCopies: upkeep ? undefined : parsed.stagedCopies !== 1,
          };
        }
        cluster = await startCluster(parsed, secrets, (error) => store?.report(error));
        clients = makeClients(cluster.trackers, secrets[0], parsed.connections);
        return new FastdfsTrunkStore(clients.merging, take ?? cluster.take);
      },
      ...(map && parsed.stagedCopies !== 1 && !upkeep
        ? { copies: copiesOf(parsed, started.promise) }
        : {}),
      // A check without repair must not change what it checks.
      ...(upkeep ? { onRebuild: upkeep.onRebuild, rebuildsFirst: true, findsOrphans: false } : {}),
      // Maintenance leaves unpublished changes in the outbox.
      ...(upkeep && !map ? { publishes: 'as before' as const } : {}),
      now: unixTime,
      randomFill: (target) => randomFillSync(target),
      packingSeed: randomInt(2 ** 32),
    });
    // Of several processes, the first holds the copies for all.
    const isFirst = !siblings || dataDirectory(directory) === directory;
    const held =
      map && !upkeep && isFirst
        ? await HeldCopies.open({
            folder: join(directory, 'held'),
            origin: staging.origin,
            limitBytes: parsed.heldSize,
            now: unixTime,
          })
        : undefined;
    store = new LocalFileStore({
      options: parsed,
      staging,
      clients: clients!,
      trackers: cluster!.trackers,
      now: unixTime,
      closeNode: () => cluster!.close(),
      siblings,
      deployed,
      held,
      returned:
        map && !upkeep
          ? (elsewhere) =>
              new Returns({
                directory,
                deployment: store!.deployment!,
                map,
                elsewhere,
                report: (error) => store?.report(error),
                now: unixTime,
              })
          : undefined,
    });
    store.siblings?.lookAgain();
    await store.start();
    if (store.deployment) started.resolve(store.deployment);
    return { staging, store };
  } catch (error) {
    if (store) await store.close();
    await map?.close();
    await Promise.all([clients?.reading.close(), clients?.merging.close()]);
    await cluster?.close();
    throw error;
  }
}

/** For maintenance by one process, which must be the only one. */
export function openForMaintenance(
  options: OpenOptions,
  publishes: 'changes' | 'everything',
  onRebuild: (done: number, all: number) => void = () => undefined,
) {
  return openStore({ ...options, scrubRate: 0 }, { kind: 'upkeep', publishes, onRebuild });
}

function copiesOf(
  { partner, peerUrl, stagedCopies }: StoreOptions,
  deployment: Promise<Deployment>,
): StagedCopiesOptions {
  const isRequired = stagedCopies === 2;
  const partners = new Partners({ url: partner, ownUrl: peerUrl, deployment });
  return {
    deadlineMs: PARTNER_DEADLINE_MS,
    storeDeadlineMs: SECOND_COPY_DEADLINE_MS,
    isRequired,
    connect: (signal) => partners.connect(signal),
    recordDeletion: async (key) => {
      const joined = await deployment;
      if (!isRequired && !joined.hasHadCopies) return false;
      await joined.remove(key);
      return true;
    },
  };
}

/** Joins the deployment. Rejects if the map refuses; if it does not answer, joining is retried. */
async function joined(
  map: DeploymentMap,
  joining: DeploymentContext['joining'],
): Promise<DeploymentContext['joined']> {
  try {
    return await joinDeployment(map, joining);
  } catch (error) {
    if (!(error instanceof MapError) || !error.retryable) throw error;
    return error;
  }
}

/**
 * A store opened for maintenance: checks, scrubs and rebuilds while no gateway uses the directory.
 */
export interface Upkeep extends AsyncDisposable {
  /** The trackers in use. */
  readonly trackers: readonly string[];
  fsck(options: UpkeepOptions): Promise<FsckReport>;
  scrub(options: ScrubOptions): Promise<ScrubReport>;
  /** Merges all waiting files, so that files that a repair staged again are in FastDFS. */
  flush(): Promise<void>;
  stats(): StoreStats;
  close(): Promise<void>;
}

export interface UpkeepExtras {
  /** Called with the number of trunks read back into a lost FileMap, and of all such trunks. */
  readonly onRebuild?: (done: number, all: number) => void;
  readonly onError?: (error: Error) => void;
}

/** Rejects as `open` does, and if the directory has no store: it creates none. */
export async function openForUpkeep(
  options: OpenOptions = {},
  extras: UpkeepExtras = {},
): Promise<Upkeep> {
  const { directory } = parseStoreOptions(options);
  await assertStoreExists(resolve(directory), ['container', 'filemap.sqlite']);
  const onRebuild = extras.onRebuild ?? (() => undefined);
  const { staging, store } = await openForMaintenance(options, 'changes', onRebuild);
  if (extras.onError) store.on('error', extras.onError);
  return {
    trackers: store.trackers,
    fsck: (how) => staging.fsck(how),
    scrub: (how) => staging.scrub(how),
    flush: () => staging.merging.flush(),
    stats: () => store.stats(),
    close: () => store.close(),
    [Symbol.asyncDispose]: () => store.close(),
  };
}

/** Deletes the FileMap; the next start rebuilds it. No process may use the directory. */
export async function discardFileMap(directory: string): Promise<void> {
  // Without a container there is nothing to rebuild it from.
  await assertStoreExists(resolve(directory), ['container']);
  const lock = DirectoryLock.acquire(resolve(directory));
  try {
    for (const suffix of ['', '-wal', '-shm']) {
      await rm(resolve(directory, `filemap.sqlite${suffix}`), { force: true });
    }
  } finally {
    lock.release();
  }
}

/** A store that opened only one of the directories would answer 404 for files of the others. */
async function assertNotShared(directory: string): Promise<void> {
  const numbers = await otherWorkers(directory);
  if (numbers.length === 0) return;
  throw new StoreError(
    'directory_unusable',
    `${directory} also holds the files of other workers (workers/${numbers.join(', workers/')}); open it with \`stevedore gateway\``,
  );
}

export async function assertStoreExists(
  directory: string,
  parts: readonly string[],
): Promise<void> {
  for (const part of parts) {
    try {
      await stat(join(directory, part));
      return;
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
    }
  }
  throw new StoreError(
    'directory_unusable',
    `${directory} is not a store: it has no ${parts.join(' and no ')}; name the directory of a gateway`,
  );
}

/** To all addresses together. */
const MAX_CONNECTIONS = 256;

function makeClients(
  trackers: readonly string[],
  secret: string | undefined,
  connections: number,
): Clients {
  const options = {
    trackers,
    secret,
    maxConnectionsPerAddress: connections,
    maxConnections: Math.max(MAX_CONNECTIONS, connections),
  };
  return { reading: connect({ ...options, followMoves: true }), merging: connect(options) };
}
