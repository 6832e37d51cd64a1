import { type Disk, localDisk } from '@stevedore/disk';
import { type Storage, startStorage } from '@stevedore/node';
import { ioOf } from '../harness/process-cpu.js';
import { DirectDisk } from './direct-disk.js';
import { PageCache } from './page-cache.js';
import type { NodeOptions } from './plan.js';

/** A storage of the paper's settings: as a process, read past the system's page cache. */

export async function startNode(
  directory: string,
  { pageCacheBytes, fetchBytes, ...options }: NodeOptions,
  below: Disk,
  trackers?: readonly string[],
) {
  const pages = pageCacheBytes > 0 ? new PageCache(below, pageCacheBytes, fetchBytes) : undefined;
  const storage = await startStorage({
    ...{ port: 0, storePaths: [directory], disk: pages?.disk ?? below, ...options },
    // All trunks stay open and their directories in memory: content alone is read.
    maxIdleFiles: 256,
    ...(trackers && { trackers }),
    onError: (error) => console.error(`node: ${error.message}`),
  });
  return { storage, pages };
}

/** Of the storage's cache, or of the page cache where that is measured. */
export function countsOf({ storage, pages }: Awaited<ReturnType<typeof startNode>>) {
  const stats = storage.cacheStats();
  const { hits, misses } = pages ?? stats;
  return {
    ...{ hits, misses },
    aheadUsedBytes: stats.readAhead.usedBytes,
    aheadUnusedBytes: stats.readAhead.unusedBytes,
  };
}

const direct = new DirectDisk();
let storage: Storage | undefined;
let counted: () => ReturnType<typeof countsOf>;

/** Answers with the port; without trackers it has to be asked by it. */
export async function start(
  directory: string,
  options: NodeOptions,
  trackers?: readonly string[],
): Promise<number> {
  const started = await startNode(directory, options, trackers ? localDisk : direct.disk, trackers);
  storage = started.storage;
  counted = () => countsOf(started);
  if (trackers) await storage.active();
  return storage.port;
}

/** Since the start of the process. */
export const counts = () => ({
  ...counted(),
  /** Reads of the disk that the storage asked for. */
  diskReads: direct.counts.reads,
  /** Bytes that the system fetched from the disk; where it does not tell, what was asked for. */
  diskBytes: ioOf('self', 'read_bytes') ?? direct.counts.bytes,
});

export const isDirect = (): boolean => direct.isDirect;

export const close = () => storage?.close();
