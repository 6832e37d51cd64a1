import { resolve } from 'node:path';
import { type DeploymentMap, isAlive, mapMismatch, openMap } from '@stevedore/map';
import type { TrunkStore } from '@stevedore/staging';
import type { OpenOptions } from '../given-options.js';
import { askAll } from '../holders/others.js';
import { type Reach, tryReach } from '../holders/reach.js';
import { invalidOption, parseStoreOptions } from '../options.js';
import { FastdfsTrunkStore } from '../put/fastdfs-trunk-store.js';
import { connect, readClusterSecrets } from '../store/cluster.js';
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
