import { stat } from 'node:fs/promises';
import { type DeploymentMap, openMap } from '@stevedore/map';
import { PostgresDriver } from '../../../packages/map/dist/postgres.js';
import { SqlMap } from '../../../packages/map/dist/sql-map.js';

/** A map whose bytes are known: of a file of SQLite, or of the tables of a PostgreSQL. */
export interface SizedMap {
  readonly map: DeploymentMap;
  /** Without a file. */
  readonly emptyBytes: number;
  /** Closes it, too. */
  readonly bytes: () => Promise<number>;
}

const CONNECTIONS = 4;
const TIMEOUT_MS = 60_000;

/** A new file. */
export async function newSqliteMap(path: string): Promise<SizedMap> {
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
  const emptyBytes = await sizeOf(driver);
  const bytes = async () => {
    const size = await sizeOf(driver);
    await map.close();
    return size;
  };
  return { map, emptyBytes, bytes };
}

/** With indexes. */
async function sizeOf(driver: PostgresDriver): Promise<number> {
  const [row] = await driver.run(
    `SELECT pg_total_relation_size('stevedore_file')
      + pg_total_relation_size('stevedore_trunk') AS bytes`,
  );
  return Number(row?.bytes);
}

const NONE = { size: 0 };

/** Of a SQLite file and what is not in it yet. */
export async function sizeWithLog(path: string): Promise<number> {
  const sizes = ['', '-wal'].map(async (end) => (await stat(path + end).catch(() => NONE)).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
