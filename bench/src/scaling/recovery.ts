import { rebuildMap } from '../../../packages/client/dist/deployment/map-rebuild.js';
import { encodeDirectory } from '../../../packages/staging/dist/merge/trunk-plan.js';
import { Child } from '../harness/child.js';
import { makeLargeDirectory, TRUNK_FILES } from '../staging/large-filemap.js';
import { absentTrunkStore } from '../staging/trunk-stores.js';
import { type Site, simulateGateway } from './gateway-trunks.js';
import { newSqliteMap } from './sized-map.js';

/** How fast what was lost comes back, on this machine. */

/** Files a second that `map rebuild` enters into a map in SQLite from directories of trunks. */
export async function measureMapRebuild(path: string, site: Site): Promise<number> {
  const trunks = new Map<string, { readonly size: number; readonly directory: Buffer }>();
  const { files } = await simulateGateway(
    { ...site, idMaxAgeMs: 0, flushes: true },
    {
      stored: (plan, fileId) => {
        const directory = Buffer.concat([...encodeDirectory(plan)]);
        trunks.set(fileId, { size: plan.size, directory });
      },
    },
  );
  const store = {
    ...absentTrunkStore(),
    list: async (onFile: (file: Listed) => void) => {
      for (const [fileId, { size }] of trunks) onFile({ fileId, size, crc32: 0, createdAt: 0 });
      return [];
    },
    /** What is before the directory is never looked at. */
    read: async (fileId: string, offset: number, length: number) => {
      const { size, directory } = trunks.get(fileId)!;
      const from = offset - (size - directory.length);
      const bytes = directory.subarray(Math.max(0, from), from + length);
      return Buffer.concat([Buffer.alloc(length - bytes.length), bytes]);
    },
  };
  const { map } = await newSqliteMap(path);
  try {
    const { signal } = new AbortController();
    const start = performance.now();
    const report = await rebuildMap({ map, store, signal, onProgress: () => undefined });
    const seconds = (performance.now() - start) / 1000;
    if (report.files !== files) throw new Error(`${report.files} of ${files} files were found`);
    return files / seconds;
  } finally {
    await map.close();
  }
}

interface Listed {
  readonly fileId: string;
  readonly size: number;
  readonly crc32: number;
  readonly createdAt: number;
}

/** Rows of a FileMap that `measureRestart` makes: whole trunks. */
export function rowsOf(files: number): number {
  return Math.max(2, Math.round(files / TRUNK_FILES)) * TRUNK_FILES;
}

/**
 * Seconds from the start of the process until a store with so many merged files is open: the
 * shortest of some starts, each after a kill.
 */
export async function measureRestart(
  directory: string,
  rows: number,
  starts: number,
): Promise<number> {
  await makeLargeDirectory(directory, rows);
  const module = new URL('../staging/start-process.js', import.meta.url);
  let shortestMs = Number.POSITIVE_INFINITY;
  for (let start = 0; start < starts; start += 1) {
    await using child = new Child<typeof import('../staging/start-process.js')>(module);
    const { processMs } = await child.call('start', directory);
    shortestMs = Math.min(shortestMs, processMs);
  }
  return shortestMs / 1000;
}
