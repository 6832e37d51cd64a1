import { existsSync } from 'node:fs';
import { copyFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type DeploymentMap, openMap } from '@stevedore/map';
import { Staging, type TrunkStore } from '@stevedore/staging';
import { rebuildMap } from '../../../packages/client/dist/deployment/map-rebuild.js';
import { Publisher } from '../../../packages/client/dist/deployment/publisher.js';
import { PostgresDriver } from '../../../packages/map/dist/postgres.js';
import { SqlMap } from '../../../packages/map/dist/sql-map.js';
import { FileMap } from '../../../packages/staging/dist/filemap/filemap.js';
import type { SteadyOutcome } from '../merging/site-process.js';
import { bodyOf, newFile, stagingOptions } from '../staging/small-files.js';
import { SizesOnly } from '../staging/trunk-stores.js';

/**
 * What a file costs in a FileMap and in a map: the FileMap of a simulated gateway is published by the
 * product's own Publisher; and how fast a map that was lost comes back, on this machine.
 */

/** A map whose bytes are known: of a file of SQLite, or of the tables of a PostgreSQL. */
interface SizedMap {
  readonly map: DeploymentMap;
  readonly emptyBytes: number;
  /** Without what is not in its tables yet. */
  readonly bytes: () => Promise<number>;
}

const CONNECTIONS = 4;
const TIMEOUT_MS = 60_000;

/** A new file, whose log is emptied when it is closed. */
async function newSqliteMap(path: string): Promise<SizedMap> {
  const schema = await openMap(`sqlite:${path}`);
  await schema.prepare();
  await schema.close();
  const emptyBytes = await sizeWithLog(path);
  const map = await openMap(`sqlite:${path}`);
  const bytes = async () => {
    await map.close();
    return sizeWithLog(path);
  };
  return { map, emptyBytes, bytes };
}

/** A database without files of a deployment; they stay there. */
export async function emptyPostgresMap(url: string): Promise<SizedMap> {
  const driver = new PostgresDriver(url, { maxConnections: CONNECTIONS, timeoutMs: TIMEOUT_MS });
  const map = new SqlMap(driver, false);
  await map.prepare();
  const [first] = await map.files(undefined, 1);
  if (first) {
    await map.close();
    throw new Error('the database of STEVEDORE_BENCH_MAP has files: name an empty one');
  }
  const size = async (): Promise<number> => {
    const [row] = await driver.run(
      `SELECT pg_total_relation_size('stevedore_file')
        + pg_total_relation_size('stevedore_trunk') AS bytes`,
    );
    return Number(row?.bytes);
  };
  const emptyBytes = await size();
  const bytes = async () => {
    const all = await size();
    await map.close();
    return all;
  };
  return { map, emptyBytes, bytes };
}

const NONE = { size: 0 };

/** Of a SQLite file and what is not in it yet. */
async function sizeWithLog(path: string): Promise<number> {
  const sizes = ['', '-wal'].map(async (end) => (await stat(path + end).catch(() => NONE)).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/** What is not in the file yet is in its log, if the last one to close it could not move it. */
async function copyWithLog(path: string, copy: string): Promise<void> {
  await copyFile(path, copy);
  if (existsSync(`${path}-wal`)) await copyFile(`${path}-wal`, `${copy}-wal`);
}

export type IndexCost = Awaited<ReturnType<typeof measureIndexes>>;

/** What the outbox of a FileMap costs. `sized`: an empty map; default a new SQLite file. */
export async function measureIndexes(
  directory: string,
  { files, stored }: Pick<SteadyOutcome, 'files' | 'stored'>,
  sized?: SizedMap,
) {
  const { map, emptyBytes, bytes } = sized ?? (await newSqliteMap(`${directory}.map.db`));
  const counted = { seconds: 0, rows: 0, statements: 0 };
  const place: DeploymentMap['place'] = async (trunk, placed) => {
    const start = performance.now();
    await map.place(trunk, placed);
    counted.seconds += (performance.now() - start) / 1000;
    counted.rows += placed.length;
    counted.statements += 1;
  };
  await FileMap.open(`${directory}.empty`, 'changes').close();
  const emptyFileMapBytes = await sizeWithLog(`${directory}.empty`);
  const path = join(directory, 'filemap.sqlite');
  const fileMapBytes = await sizeWithLog(path);
  // A copy: each map is given all of it.
  await copyWithLog(path, `${directory}.copy`);
  const fileMap = FileMap.open(`${directory}.copy`, 'changes');
  const publisher = new Publisher(
    { place, remove: map.remove.bind(map), retire: map.retire.bind(map) },
    fileMap.outbox!,
  );
  await publisher.publish(Number.POSITIVE_INFINITY);
  await fileMap.close();
  if (counted.rows < files) throw new Error(`${counted.rows} of ${files} files were published`);
  return {
    /** Beside what they take without a file. */
    fileMapBytesPerFile: (fileMapBytes - emptyFileMapBytes) / files,
    mapBytesPerFile: ((await bytes()) - emptyBytes) / files,
    /** Rows of files that one connection places. */
    mapRowsPerSecond: counted.rows / counted.seconds,
    /** That place a trunk, or a part of a large one. */
    statementsPerTrunk: counted.statements / stored,
  };
}

const REBUILT_BYTES = 100;
const BATCH_FILES = 500;

/** Files a second that `map rebuild` enters into a map in SQLite from directories of trunks. */
export async function measureMapRebuild(directory: string, files: number): Promise<number> {
  const trunks = new Map<string, Buffer>();
  const sizes = new SizesOnly();
  const store: TrunkStore = {
    ...sizes.store,
    store: async (source, signal) => {
      const fileId = await sizes.store.store(source, signal);
      const all: Uint8Array[] = [];
      for await (const pieces of source.pieces()) all.push(Buffer.concat(pieces));
      trunks.set(fileId, Buffer.concat(all));
      return fileId;
    },
    list: async (onFile) => {
      for (const [fileId, { length: size }] of trunks) {
        onFile({ fileId, size, crc32: 0, createdAt: 0 });
      }
      return [];
    },
    read: async (fileId, offset, length) => trunks.get(fileId)!.subarray(offset, offset + length),
  };
  const staging = await Staging.open(stagingOptions(directory, store));
  for (let at = 0; at < files; at += BATCH_FILES) {
    const length = Math.min(BATCH_FILES, files - at);
    const batch = Array.from({ length }, (_, index) => bodyOf(at + index, REBUILT_BYTES));
    await staging.acceptance.stage(batch.map((body, index) => newFile(staging, at + index, body)));
  }
  await staging.merging.flush();
  await staging.close();
  const { map } = await newSqliteMap(`${directory}.rebuilt.db`);
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
