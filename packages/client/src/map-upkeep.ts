import { openMap } from '@stevedore/map';
import type { TrunkStore } from '@stevedore/staging';
import { connect, readClusterSecrets } from './cluster.js';
import { checkMap, type MapCheckParts, type MapReport } from './deployment/map-check.js';
import { type MapRebuildReport, rebuildMap } from './deployment/map-rebuild.js';
import { FastdfsTrunkStore } from './fastdfs-trunk-store.js';
import type { OpenOptions } from './given-options.js';
import { invalidOption, parseStoreOptions } from './options.js';

/** Maintenance of the map by a process that is not a server of the deployment. */

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
