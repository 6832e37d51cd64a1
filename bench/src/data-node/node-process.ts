import { type Storage, startStorage } from '@stevedore/node';
import { cpuUsed, ioOf } from '../harness/process-cpu.js';
import { SlowDisk } from '../harness/slow-disk.js';
import { DirectDisk } from './direct-disk.js';
import { PageCache } from './page-cache.js';
import type { CacheOptions, DiskKind } from './plan.js';

/** The measured process: one storage. */

let storage: Storage | undefined;
const direct = new DirectDisk();
const slow = new SlowDisk(direct.disk);
let pages: PageCache | undefined;

/** Answers with the port; without trackers it has to be asked by it. */
export async function start(
  directory: string,
  { pageCacheBytes, ...options }: CacheOptions,
  trackers?: readonly string[],
): Promise<number> {
  if (pageCacheBytes > 0) pages = new PageCache(slow.disk, pageCacheBytes);
  storage = await startStorage({
    ...{ port: 0, storePaths: [directory], disk: pages?.disk ?? slow.disk, ...options },
    // All trunks stay open and their directories in memory: content alone is read.
    maxIdleFiles: 256,
    ...(trackers && { trackers }),
    onError: (error) => console.error(`node: ${error.message}`),
  });
  if (trackers) await storage.active();
  return storage.port;
}

/** The disk as it is, at first, or with the delays of a slowed one. */
export function setDisk(disk: DiskKind): void {
  slow.isSlow = disk === 'slowed';
}

/** Since the start of the process. */
export function counts() {
  const stats = storage!.cacheStats();
  /** Of the storage's cache, or of the page cache where that is measured. */
  const { hits, misses } = pages ?? stats;
  return {
    cpuSeconds: cpuUsed(),
    /** Reads of the disk that the storage asked for. */
    diskReads: direct.counts.reads,
    /** Bytes that the system fetched from the disk; where it does not tell, what was asked for. */
    diskBytes: ioOf('self', 'read_bytes') ?? direct.counts.bytes,
    ...{ hits, misses },
    aheadUsedBytes: stats.readAhead.usedBytes,
    aheadUnusedBytes: stats.readAhead.unusedBytes,
  };
}

export const isDirect = (): boolean => direct.isDirect;

export const close = () => storage?.close();
