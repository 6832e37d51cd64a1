import { parentPort, workerData } from 'node:worker_threads';
import type { TierOptions } from '@stevedore/tiering';
import { startTracker, type Tracker } from '@stevedore/tracker';
import { asError, codeOf } from '@stevedore/wire';
import { startStorage } from './index.js';

/**
 * Entry point of the embedded node's thread: a storage, and a tracker unless it joins others,
 * started and closed together.
 */

export interface EmbeddedSettings {
  readonly directory: string;
  readonly host: string;
  readonly trackerPort: number;
  readonly storagePort: number;
  readonly group: string | undefined;
  readonly tiers: TierOptions;
  readonly cacheBytes: number;
  /** None: the node has a tracker of its own. */
  readonly trackers: readonly string[];
  readonly secrets: readonly string[];
}

/** Where to reach the node. */
export interface EmbeddedPorts {
  /** `127.0.0.1:22122`, for a client's list of trackers. */
  readonly trackers: readonly string[];
  /** 0 if it has none. */
  readonly trackerPort: number;
  readonly storagePort: number;
}

/** Errors lose their code between threads, so their fields are sent instead. */
export interface PlainError {
  readonly name: string;
  readonly code: string;
  readonly message: string;
}

export type FromWorker =
  | ({ readonly kind: 'ready' } & EmbeddedPorts)
  | { readonly kind: 'failed'; readonly error: PlainError }
  | { readonly kind: 'trouble'; readonly error: PlainError };

export interface ToWorker {
  readonly kind: 'close';
}

/** Space that uploads leave free, for the rest of a small machine. */
const RESERVED_SPACE_MEGABYTES = 64;

const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread only');

function tell(message: FromWorker): void {
  port?.postMessage(message);
}

function plain(error: unknown): PlainError {
  const { name, message } = asError(error);
  return { name, message, code: codeOf(error) ?? 'embedded_node_failed' };
}

async function run(settings: EmbeddedSettings): Promise<() => Promise<void>> {
  const { directory, host, storagePort, group, tiers, cacheBytes, secrets } = settings;
  const onError = (error: Error): void => tell({ kind: 'trouble', error: plain(error) });
  const tracker = settings.trackers.length === 0 ? await ownTracker(settings, onError) : undefined;
  const trackers = tracker ? [`${reachableHost(host)}:${tracker.port}`] : settings.trackers;
  try {
    const storage = await startStorage({
      host,
      port: storagePort,
      secrets,
      storePaths: [directory],
      cacheBytes,
      tiers,
      ...(group === undefined ? {} : { group }),
      trackers,
      onError,
    });
    await storage.active();
    const ports = { trackerPort: tracker?.port ?? 0, storagePort: storage.port };
    tell({ kind: 'ready', trackers, ...ports });
    return async () => {
      await storage.close();
      await tracker?.close();
    };
  } catch (error) {
    await tracker?.close();
    throw error;
  }
}

function ownTracker(
  { host, trackerPort, secrets }: EmbeddedSettings,
  onError: (error: Error) => void,
): Promise<Tracker> {
  const reservedSpaceMegabytes = RESERVED_SPACE_MEGABYTES;
  return startTracker({ host, port: trackerPort, secrets, reservedSpaceMegabytes, onError });
}

/** The address at which local clients reach a server that listens on `host`. */
function reachableHost(host: string): string {
  return host === '0.0.0.0' ? '127.0.0.1' : host;
}

const started = run(workerData as EmbeddedSettings);
started.catch((error: unknown) => {
  tell({ kind: 'failed', error: plain(error) });
  port.close();
});
port.on('message', (message: ToWorker) => {
  if (message.kind !== 'close') return;
  void started
    .then((close) => close())
    .catch((error: unknown) => tell({ kind: 'trouble', error: plain(error) }))
    .finally(() => port.close());
});
