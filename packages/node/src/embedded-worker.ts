import { parentPort, workerData } from 'node:worker_threads';
import { localDisk, slowDisk } from '@stevedore/disk';
import type { TierOptions } from '@stevedore/tiering';
import { startTracker, type Tracker } from '@stevedore/tracker';
import { asError, codeOf, DEFAULT_HOST } from '@stevedore/wire';
import { startStorage } from './index.js';

/**
 * Entry point of the embedded node's thread: a storage, and a tracker unless it joins others,
 * started and closed together.
 */

export interface EmbeddedSettings {
  /** Where the files go; created if it is missing. */
  readonly directory: string;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 0: a free one. */
  readonly trackerPort?: number;
  /** Default 0: a free one. */
  readonly storagePort?: number;
  /** Trackers to join, `host:port`. Default none: the node starts one of its own. */
  readonly trackers?: readonly string[];
  /** Default `group1`. */
  readonly group?: string;
  /** Small files as rows beside their metadata, and their migration. Default: disabled. */
  readonly tiers?: TierOptions;
  /** Memory for the cache of files that clients read from it. Default 16 MiB. */
  readonly cacheBytes?: number;
  /** Seek and rotation of a modelled hard disk, in milliseconds. Default: the disk as it is. */
  readonly slowDiskMs?: number;
  /** Secrets of which clients must have one. Default none: every client is served. */
  readonly secrets?: readonly string[];
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

/** `number`: of the file that is handed over. */
export type FromWorker =
  | ({ readonly kind: 'ready' } & EmbeddedPorts)
  | { readonly kind: 'failed'; readonly error: PlainError }
  | { readonly kind: 'trouble'; readonly error: PlainError }
  /** Write the file to this path. */
  | { readonly kind: 'write'; readonly number: number; readonly path: string }
  | { readonly kind: 'taken'; readonly number: number; readonly fileId: string }
  | { readonly kind: 'refused'; readonly number: number; readonly error: PlainError };

export type ToWorker =
  | { readonly kind: 'close' }
  | {
      readonly kind: 'take';
      readonly number: number;
      readonly bytes: number;
      readonly extension: string;
    }
  | { readonly kind: 'written'; readonly number: number; readonly isWhole: boolean };

/** The SDK in this process has its own cache; this one is for other clients. */
const CACHE_BYTES = 16 * 1024 * 1024;
/** Space that uploads leave free, for the rest of a small machine. */
const RESERVED_SPACE_MEGABYTES = 64;
const MEBIBYTE = 2 ** 20;

const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread only');

function tell(message: FromWorker): void {
  port?.postMessage(message);
}

function plain(error: unknown): PlainError {
  const { name, message } = asError(error);
  return { name, message, code: codeOf(error) ?? 'embedded_node_failed' };
}

async function run(settings: EmbeddedSettings) {
  const { directory, host = DEFAULT_HOST, trackerPort = 0, storagePort = 0 } = settings;
  const { group, tiers = {}, cacheBytes = CACHE_BYTES, slowDiskMs = 0, secrets = [] } = settings;
  const onError = (error: Error): void => tell({ kind: 'trouble', error: plain(error) });
  let { trackers = [] } = settings;
  let tracker: Tracker | undefined;
  if (trackers.length === 0) {
    const reservedSpaceMegabytes = RESERVED_SPACE_MEGABYTES;
    tracker = await startTracker({
      host,
      port: trackerPort,
      secrets,
      reservedSpaceMegabytes,
      onError,
    });
    trackers = [`${host === '0.0.0.0' ? '127.0.0.1' : host}:${tracker.port}`];
  }
  try {
    const storage = await startStorage({
      host,
      port: storagePort,
      secrets,
      storePaths: [directory],
      cacheBytes,
      tiers,
      ...(group === undefined ? {} : { group }),
      ...(slowDiskMs === 0 ? {} : { disk: slowDisk(localDisk, slowDiskMs) }),
      trackers,
      onError,
    });
    await storage.active();
    const ports = { trackerPort: tracker?.port ?? 0, storagePort: storage.port };
    tell({ kind: 'ready', trackers, ...ports });
    const close = async (): Promise<void> => {
      await storage.close();
      await tracker?.close();
    };
    return { storage, close };
  } catch (error) {
    await tracker?.close();
    throw error;
  }
}

const started = run(workerData as EmbeddedSettings);
started.catch((error: unknown) => {
  tell({ kind: 'failed', error: plain(error) });
  port.close();
});
/** Of files that are being written. */
const writing = new Map<number, (isWhole: boolean) => void>();

/** A file is handed over on this disk: it passes no socket, and is written once. */
async function take({ number, bytes, extension }: ToWorker & { kind: 'take' }): Promise<void> {
  const write = async (path: string): Promise<void> => {
    const written = new Promise<boolean>((resolve) => writing.set(number, resolve));
    tell({ kind: 'write', number, path });
    if (!(await written)) throw new Error('the file was not written');
  };
  try {
    const { storage } = await started;
    const spareBytes = RESERVED_SPACE_MEGABYTES * MEBIBYTE;
    const fileId = await storage.take({ bytes, extension, spareBytes, write });
    tell({ kind: 'taken', number, fileId });
  } catch (error) {
    tell({ kind: 'refused', number, error: plain(error) });
  } finally {
    writing.delete(number);
  }
}

port.on('message', (message: ToWorker) => {
  if (message.kind === 'take') void take(message);
  else if (message.kind === 'written') writing.get(message.number)?.(message.isWhole);
  else {
    void started
      .then(({ close }) => close())
      .catch((error: unknown) => tell({ kind: 'trouble', error: plain(error) }))
      .finally(() => port.close());
  }
});
