import { parentPort, workerData } from 'node:worker_threads';
import { startTracker } from '@stevedore/tracker';
import { asError, codeOf } from '@stevedore/wire';
import {
  type EmbeddedSettings,
  type FromWorker,
  type PlainError,
  reachableHost,
  type ToWorker,
} from './embedded-messages.js';
import { startStorage } from './start-storage.js';

/**
 * Entry of the embedded node's thread: one tracker and one storage, started
 * together and closed together.
 */

/** Uploads leave so much free: enough for the rest of a small machine to go on. */
const RESERVED_SPACE_MEGABYTES = 64;
/** The SDK in the same process has a cache of its own; this is for clients from elsewhere. */
const CACHE_BYTES = 16 * 1024 * 1024;

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
  const { directory, host, trackerPort, storagePort, metadataTier, secrets } = settings;
  const onError = (error: Error): void => tell({ kind: 'trouble', error: plain(error) });
  const tracker = await startTracker({
    host,
    port: trackerPort,
    secrets,
    reservedSpaceMegabytes: RESERVED_SPACE_MEGABYTES,
    onError,
  });
  try {
    const storage = await startStorage({
      host,
      port: storagePort,
      secrets,
      storePaths: [directory],
      cacheBytes: CACHE_BYTES,
      tiers: { enabled: metadataTier },
      trackers: [`${reachableHost(host)}:${tracker.port}`],
      onError,
    });
    await storage.active();
    tell({ kind: 'ready', trackerPort: tracker.port, storagePort: storage.port });
    return async () => {
      await storage.close();
      await tracker.close();
    };
  } catch (error) {
    await tracker.close();
    throw error;
  }
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
