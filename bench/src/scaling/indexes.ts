import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type DeploymentMap, openMap } from '@stevedore/map';
import type { FileRow, TrunkStore } from '@stevedore/staging';
import { rebuildMap } from '../../../packages/client/dist/deployment/map-rebuild.js';
import { Publisher } from '../../../packages/client/dist/deployment/publisher.js';
import { PostgresDriver } from '../../../packages/map/dist/postgres.js';
import { SqlMap } from '../../../packages/map/dist/sql-map.js';
import { FileMap } from '../../../packages/staging/dist/filemap/filemap.js';
import { packMembers } from '../../../packages/staging/dist/filemap/rows.js';
import { encodeDirectory } from '../../../packages/staging/dist/merge/trunk-plan.js';
import { absentTrunkStore } from '../staging/trunk-stores.js';
import { type Observer, type Site, simulateGateway } from './gateway-trunks.js';

/**
 * What a file costs in a FileMap and in a map: the files of a simulated gateway are written with the
 * product's own FileMap and published by its own Publisher to a map; and how fast a map that was lost
 * comes back, on this machine.
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
export async function sizeWithLog(path: string): Promise<number> {
  const sizes = ['', '-wal'].map(async (end) => (await stat(path + end).catch(() => NONE)).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

export type IndexCost = Awaited<ReturnType<typeof measureIndexes>>;

/** Files that are staged with one transaction: those that come while the disk is busy. */
const BATCH_FILES = 64;
const CONFIRM_PAGE = 500;

/** `sized`: an empty map; default a new SQLite file. */
export async function measureIndexes(directory: string, site: Site, sized?: SizedMap) {
  await mkdir(directory, { recursive: true });
  const path = join(directory, 'filemap.sqlite');
  const { map, emptyBytes, bytes } = sized ?? (await newSqliteMap(join(directory, 'map.db')));
  const counted = { seconds: 0, rows: 0, statements: 0 };
  const place: DeploymentMap['place'] = async (trunk, files) => {
    const start = performance.now();
    await map.place(trunk, files);
    counted.seconds += (performance.now() - start) / 1000;
    counted.rows += files.length;
    counted.statements += 1;
  };
  await FileMap.open(path, true).close();
  const emptyFileMapBytes = await sizeWithLog(path);
  const fileMap = FileMap.open(path, true);
  const whole = { ...site, idMaxAgeMs: 0, flushes: true };
  const { files, stored } = await simulateGateway(whole, writerOf(fileMap));
  const publisher = new Publisher(
    { place, remove: map.remove.bind(map), retire: map.retire.bind(map) },
    fileMap.outbox!,
  );
  await publisher.publish(Number.POSITIVE_INFINITY);
  await fileMap.makeDurable();
  await fileMap.close();
  return {
    /** Beside what they take without a file. */
    fileMapBytesPerFile: ((await sizeWithLog(path)) - emptyFileMapBytes) / files,
    mapBytesPerFile: ((await bytes()) - emptyBytes) / files,
    emptyFileMapBytes,
    emptyMapBytes: emptyBytes,
    /** Rows of files that one connection places. */
    mapRowsPerSecond: counted.rows / counted.seconds,
    /** That place a trunk, or a part of a large one. */
    statementsPerTrunk: counted.statements / stored,
  };
}

/** Writes what a gateway would write to its FileMap. */
function writerOf(fileMap: FileMap): Observer {
  let batch: FileRow[] = [];
  const applyBatch = (): void => {
    const last = batch.at(-1);
    if (!last) return;
    const changes = batch.map(({ local, ...row }) => ({
      ...{ ...row, what: 'file' as const, position: local.position, at: 'container' as const },
    }));
    batch = [];
    fileMap.apply(changes, last.local.segment, last.local.position + last.size);
  };
  return {
    staged(row) {
      batch.push(row);
      if (batch.length >= BATCH_FILES) applyBatch();
    },
    stored({ taskId, kind, rows, members, size, thin }, fileId) {
      applyBatch();
      const { segment, position } = rows.at(-1)!.local;
      const plan = { what: 'plan' as const, taskId, kind, size, members: packMembers(members) };
      const about = { taskId, kind, fileId, size, crc32: rows[0]!.crc32, files: rows.length };
      fileMap.apply([plan], segment, position);
      fileMap.apply([{ what: 'stored', ...about, file: undefined }], segment, position);
      const { id } = fileMap.trunkByTask(taskId)!;
      for (let at = 0; at < members.length; at += CONFIRM_PAGE) {
        fileMap.confirmMembers(id, members.slice(at, at + CONFIRM_PAGE));
      }
      const bytes = rows.reduce((sum, row) => sum + row.size, 0);
      fileMap.finishTrunk(id, rows.length, bytes, { thin });
    },
  };
}

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
    list: async (onFile: Parameters<TrunkStore['list']>[0]) => {
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
