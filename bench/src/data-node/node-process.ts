import { readFileSync } from 'node:fs';
import { type Storage, startStorage } from '@stevedore/node';
import { cpuUsed } from '../harness/process-cpu.js';
import { serve } from '../harness/serve.js';
import { DirectDisk } from './direct-disk.js';
import { PageCache } from './page-cache.js';
import type { CacheOptions, DiskKind } from './settings.js';
import { SlowDisk } from './slow-disk.js';

/** The measured process: one storage. */

export interface NodeOptions extends CacheOptions {
  readonly directory: string;
}

/** Since the start of the process. */
export interface NodeCounts {
  readonly cpuSeconds: number;
  /** Reads of the disk that the storage asked for. */
  readonly diskReads: number;
  /** Bytes that the system fetched from the disk for this process. */
  readonly diskBytes: number;
  /** Of the storage's cache, or of the page cache where that is measured. */
  readonly hits: number;
  readonly misses: number;
  readonly aheadReadBytes: number;
  readonly aheadUsedBytes: number;
  readonly aheadUnusedBytes: number;
}

export type NodeHandlers = {
  /** Answers with the port. */
  readonly start: (options: NodeOptions) => Promise<number>;
  /** The disk as it is, at first, or with the delays of a slowed one. */
  readonly setDisk: (disk: DiskKind) => void;
  readonly counts: () => NodeCounts;
  readonly isDirect: () => boolean;
};

let storage: Storage | undefined;
const direct = new DirectDisk();
const slow = new SlowDisk(direct.disk);
let pages: PageCache | undefined;

async function start({ directory, pageCacheBytes, ...cache }: NodeOptions): Promise<number> {
  if (pageCacheBytes > 0) pages = new PageCache(slow.disk, pageCacheBytes);
  storage = await startStorage({
    port: 0,
    storePaths: [directory],
    disk: pages?.disk ?? slow.disk,
    // All trunks stay open and their directories in memory: content alone is read.
    maxIdleFiles: 256,
    ...cache,
    onError: (error) => console.error(`node: ${error.message}`),
  });
  return storage.port;
}

function setDisk(disk: DiskKind): void {
  slow.isSlow = disk === 'slowed';
}

function counts(): NodeCounts {
  const stats = storage!.cacheStats();
  const { hits, misses } = pages ?? stats;
  const { readAhead } = stats;
  return {
    cpuSeconds: cpuUsed(),
    diskReads: direct.counts.reads,
    diskBytes: bytesFromDisk(),
    hits,
    misses,
    aheadReadBytes: readAhead.readBytes,
    aheadUsedBytes: readAhead.usedBytes,
    aheadUnusedBytes: readAhead.unusedBytes,
  };
}

/** What the storage asked for, where the system does not tell. */
function bytesFromDisk(): number {
  try {
    const io = readFileSync('/proc/self/io', 'latin1');
    return Number(/^read_bytes: (\d+)$/m.exec(io)![1]);
  } catch {
    return direct.counts.bytes;
  }
}

serve(
  { start, setDisk, counts, isDirect: () => direct.isDirect } satisfies NodeHandlers,
  async () => storage?.close(),
);
