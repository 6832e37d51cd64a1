import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type DeploymentMap, isAlive, MapError, mapMismatch, openMap } from '@stevedore/map';
import { StoreError, type TrunkStore } from '@stevedore/staging';
import { adoptOrigin } from '../adoption/ask-adoption.js';
import type { OpenOptions } from '../given-options.js';
import { askAll } from '../holders/others.js';
import { type Reach, tryReach } from '../holders/reach.js';
import { invalidOption, parseStoreOptions } from '../options.js';
import { FastdfsTrunkStore } from '../put/fastdfs-trunk-store.js';
import { connect, readClusterSecrets } from '../store/cluster.js';
import { assertStoreExists, openForMaintenance } from '../store/open.js';
import { otherWorkers, workerDirectory } from '../store/shared-directory.js';
import type { LocalFileStore } from '../store/store.js';
import type { StoreStats } from '../store/types.js';
import { loadRun } from './instance.js';
import { checkMap, type MapCheckParts, type MapReport } from './map-check.js';
import { type MapRebuildReport, rebuildMap } from './map-rebuild.js';

/** Maintenance of the map, and a look at it, by a process that is not a server of the deployment. */

type MapOptions = Pick<OpenOptions, 'map' | 'trackers' | 'clusterSecretFile'>;

interface MapWork {
  readonly onProgress?: (done: number, all: number) => void;
  readonly signal?: AbortSignal;
}

/** Rejects with `MapError`, and with StoreError `invalid_option` without a map or trackers. */
export function checkDeploymentMap(
  options: MapOptions,
  { repair, ...work }: MapWork & { readonly repair: boolean },
): Promise<MapReport> {
  return withMap(options, work, (parts) => checkMap({ ...parts, repair }));
}

/** As `checkDeploymentMap`. */
export function rebuildDeploymentMap(
  options: MapOptions,
  work: MapWork = {},
): Promise<MapRebuildReport> {
  return withMap(options, work, rebuildMap);
}

async function withMap<Report>(
  options: MapOptions,
  { onProgress = () => undefined, signal = new AbortController().signal }: MapWork,
  work: (parts: Omit<MapCheckParts, 'repair'>) => Promise<Report>,
): Promise<Report> {
  const { map: url, trackers, clusterSecretFile } = parseStoreOptions(options);
  if (url === '') throw invalidOption('map: name the map of the deployment');
  if (trackers.length === 0) throw invalidOption('trackers: name those of the FastDFS cluster');
  const [secret] = await readClusterSecrets(clusterSecretFile);
  const map = await openMap(url);
  const client = connect({ trackers, secret });
  try {
    await map.prepare();
    const store: TrunkStore = new FastdfsTrunkStore(client);
    return await work({ map, store, onProgress, signal });
  } finally {
    await Promise.all([map.close(), client.close()]);
  }
}

/** The map's secret. Rejects with `map_mismatch` if the directory belongs to another map. */
export async function mapSecretOf(map: DeploymentMap, directory: string): Promise<string> {
  const secret = await map.prepare();
  const known = (await loadRun(resolve(directory))).secret;
  if (known !== undefined && known !== secret) throw mapMismatch();
  return secret;
}

export interface DeploymentFinding {
  /** Why the map cannot be used; absent if it can. */
  readonly error?: string;
  /** Others that are alive. */
  readonly gateways: number;
  /** Those of them that have a URL. */
  readonly reach: readonly Reach[];
}

const LOOK_TIMEOUT_MS = 5_000;

/** `isRunning`: a gateway with these options runs, so the others try to reach it, too. */
export async function inspectDeployment(
  options: Pick<OpenOptions, 'map' | 'peerUrl' | 'directory'>,
  isRunning: boolean,
): Promise<DeploymentFinding> {
  const { map: url, peerUrl, directory } = parseStoreOptions(options);
  const map = await openMap(url, { timeoutMs: LOOK_TIMEOUT_MS });
  try {
    const secret = await mapSecretOf(map, directory);
    const [all, now, here] = [await map.gateways(), await map.now(), performance.now()];
    const alive = all.filter((each) => isAlive(each, now) && each.url !== peerUrl);
    const peers = { secret, mapNow: () => now + performance.now() - here };
    const urls = new Map(alive.flatMap(({ url: at }) => (at === null ? [] : [[at, []]])));
    const ask = (at: string) => tryReach(peers, at, isRunning ? peerUrl : '');
    const { answers } = await askAll({ urls, away: [] }, ask);
    return { gateways: alive.length, reach: answers };
  } catch (error) {
    return { error: (error as Error).message, gateways: 0, reach: [] };
  } finally {
    await map.close();
  }
}

export interface FillReport {
  readonly trunks: number;
  readonly files: number;
}

const LOOK_MS = 200;

/**
 * Publishes to the map everything that the stores of a directory and its workers have merged and
 * deleted. No other process may use the directory. If it is stopped, the next run continues where it
 * ended.
 */
export async function fillMap(
  options: OpenOptions,
  onProgress: (done: number, all: number) => void,
  onError: (error: Error) => void,
): Promise<FillReport> {
  const { directory } = parseStoreOptions(options);
  await assertStoreExists(resolve(directory), ['container', 'filemap.sqlite']);
  const stores: LocalFileStore[] = [];
  const sum = (of: (stats: StoreStats) => number) =>
    stores.reduce((all, store) => all + of(store.stats()), 0);
  try {
    for (const number of [1, ...(await otherWorkers(directory))]) {
      const trackers = stores[0]?.trackers ?? options.trackers ?? [];
      const own = { ...options, trackers, directory: workerDirectory(directory, number) };
      const { store } = await openForMaintenance(own, 'everything');
      store.on('error', onError);
      stores.push(store);
    }
    const all = sum(({ map }) => map!.pending);
    for (;;) {
      const pending = sum(({ map }) => map!.pending);
      onProgress(all - pending, all);
      if (pending === 0) {
        return { trunks: sum(({ trunks }) => trunks), files: sum((each) => each.mergedFiles) };
      }
      await sleep(LOOK_MS);
    }
  } finally {
    // The embedded FastDFS is the first one's.
    for (const store of stores.reverse()) await store.close();
  }
}

export interface DrainReport {
  /** Of the directory and its workers. */
  readonly origins: readonly number[];
  /** Files that they have stored in FastDFS, which another gateway answers for now. */
  readonly files: number;
}

/**
 * Takes a gateway out of its deployment for good: stores what is staged in FastDFS, publishes it in the
 * map, and gives the files to another gateway that is alive. Then the directory is not needed any more.
 * No other process may use it. If it is stopped, the next run continues where it ended.
 */
export async function drainGateway(
  options: OpenOptions,
  onProgress: (done: number, all: number) => void,
  onError: (error: Error) => void,
): Promise<DrainReport> {
  const { directory, map = '' } = parseStoreOptions(options);
  await assertStoreExists(resolve(directory), ['container', 'filemap.sqlite']);
  const stores: LocalFileStore[] = [];
  const origins: number[] = [];
  let files = 0;
  let adopted: MapError | undefined;
  try {
    for (const number of [1, ...(await otherWorkers(directory))]) {
      const trackers = stores[0]?.trackers ?? options.trackers ?? [];
      const own = { ...options, trackers, directory: workerDirectory(directory, number) };
      const opened = await openForMaintenance(own, 'changes').catch((error: unknown) => {
        if (!(error instanceof MapError) || error.code !== 'origin_adopted') throw error;
        adopted = error;
        onError(error);
        return undefined;
      });
      // An earlier run ended behind it.
      if (!opened) continue;
      const { staging, store } = opened;
      store.on('error', onError);
      stores.push(store);
      origins.push(staging.origin);
      await store.flush();
      while (store.stats().map!.pending > 0) await sleep(LOOK_MS);
      const { stagedFiles, mergedFiles } = store.stats();
      if (stagedFiles > 0) {
        const message = `${stagedFiles} files of ${own.directory} are not in FastDFS: see the log, and run it again`;
        throw new StoreError('storage_unavailable', message);
      }
      files += mergedFiles;
    }
  } finally {
    for (const store of stores.reverse()) await store.close();
  }
  if (adopted && origins.length === 0) throw adopted;
  for (const origin of origins) await adoptOrigin({ map, origin, by: 'any', onProgress });
  return { origins, files };
}
