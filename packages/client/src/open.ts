import { randomFillSync } from 'node:crypto';
import { resolve } from 'node:path';
import { FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { Staging, StoreError } from '@stevedore/staging';
import { invalidOption } from './config.js';
import { FastdfsTrunkStore } from './fastdfs-trunk-store.js';
import { type OpenOptions, parseStoreOptions, type StoreOptions } from './options.js';
import { LocalFileStore } from './store.js';
import type { FileStore } from './types.js';

/**
 * Opens a store: takes the directory, starts the embedded FastDFS node when no
 * trackers are named, recovers what an earlier process left, and begins merging.
 *
 * Rejects with StoreError: `invalid_option`, `directory_locked` (another process
 * has the directory), `directory_unusable`, `port_in_use`.
 */
export async function open(options: OpenOptions = {}): Promise<FileStore> {
  const parsed = parseStoreOptions(options);
  const node = new NodeHolder(parsed);
  let trackers: readonly string[] = [];
  let client: FastdfsClient | undefined;
  let store: LocalFileStore | undefined;
  try {
    const staging = await Staging.open({
      directory: resolve(parsed.directory),
      connect: async () => {
        trackers = await node.trackers((error) => store?.report(error));
        client = makeClient(trackers);
        return new FastdfsTrunkStore(client);
      },
      trunkBytes: parsed.trunkSize,
      maxAgeMs: parsed.mergeMaxAge,
      containerBytes: parsed.containerSize,
      retainBytes: parsed.retain,
      sync: parsed.durability === 'sync',
      now: Date.now,
      randomFill: (target) => randomFillSync(target),
    });
    store = new LocalFileStore({
      options: parsed,
      staging,
      client: client!,
      trackers,
      now: Date.now,
      closeNode: () => node.close(),
    });
    return store;
  } catch (error) {
    await client?.close();
    await node.close();
    throw error;
  }
}

function makeClient(trackers: readonly string[]): FastdfsClient {
  try {
    return new FastdfsClient({ trackers });
  } catch (error) {
    if (error instanceof FastdfsError) throw invalidOption(`trackers: ${error.message}`);
    throw error;
  }
}

/** The embedded node, if there is one. */
class NodeHolder {
  readonly #options: StoreOptions;
  #close: () => Promise<void> = () => Promise.resolve();

  constructor(options: StoreOptions) {
    this.#options = options;
  }

  async trackers(onError: (error: Error) => void): Promise<readonly string[]> {
    const { trackers, directory, trackerPort, storagePort } = this.#options;
    if (trackers.length > 0) return trackers;
    // Loaded only when it is used: an app with a cluster of its own never needs it.
    const { startEmbeddedNode } = await import('@stevedore/storage/embedded');
    try {
      const node = await startEmbeddedNode({
        directory: resolve(directory, 'node'),
        trackerPort,
        storagePort,
        onError,
      });
      this.#close = () => node.close();
      return node.trackers;
    } catch (error) {
      throw nodeError(error);
    }
  }

  close(): Promise<void> {
    return this.#close();
  }
}

function nodeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const code = (error as NodeJS.ErrnoException).code;
  if (code === 'EADDRINUSE') return new StoreError('port_in_use', error.message, { cause: error });
  return new StoreError(
    'directory_unusable',
    `the embedded node could not start: ${error.message}`,
    {
      cause: error,
    },
  );
}
