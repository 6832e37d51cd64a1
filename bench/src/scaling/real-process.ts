import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FileStore, open, rebuildDeploymentMap } from '@stevedore/client';
import { openDatabase } from '@stevedore/disk/sqlite';
import { drive } from '../harness/load.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { serve } from '../harness/serve.js';
import { Zipf } from '../harness/zipf.js';
import { shuffled } from './cache-model.js';
import { ABOUT, sizesOf } from './files.js';
import { sizeWithLog } from './sized-map.js';

/** The measured process: an application with a store, a map and a storage of its own. */

export interface RealRun {
  readonly directory: string;
  readonly trackers: readonly string[];
  readonly files: number;
  readonly meanBytes: number;
  readonly trunkBytes: number;
  readonly cacheBytes: number;
  readonly seed: number;
}

export interface Stored {
  readonly uploadSeconds: number;
  /** Until all is merged and published. */
  readonly seconds: number;
  readonly trunks: number;
  /** Of its bytes, each trunk. */
  readonly fills: readonly number[];
}

export interface Reads {
  readonly exponent: number;
  readonly warmUp: number;
  readonly counted: number;
  readonly seed: number;
}

export interface Kept {
  readonly fileMapBytes: number;
  readonly mapBytes: number;
  readonly mapRows: number;
  readonly mapTrunks: number;
  readonly restartSeconds: number;
  readonly rebuildSeconds: number;
  readonly rebuiltFiles: number;
}

export type RealHandlers = {
  readonly store: (run: RealRun) => Promise<Stored>;
  /** The share of the counted reads that memory answered. */
  readonly read: (reads: Reads) => Promise<{ readonly hitRatio: number; readonly seconds: number }>;
  /** Closes the store and looks at what it leaves. */
  readonly close: () => Promise<Kept>;
};

const IN_FLIGHT = 64;
const READS_IN_FLIGHT = 8;
const POOL_BYTES = 2 ** 22;

let store: FileStore | undefined;
let keys: string[] = [];
let options: RealRun;

function openAgain(): Promise<FileStore> {
  const { directory, trackers, trunkBytes, cacheBytes } = options;
  return open({
    ...{ directory: join(directory, 'store'), trackers, map: `sqlite:${mapPath()}` },
    ...{ trunkSize: trunkBytes, smallFileLimit: trunkBytes / 2, cacheSize: cacheBytes },
    // Nothing of this waits for a disk, and no background walk reads beside.
    ...{ durability: 'os', scrubRate: 0, readAhead: '1MiB' },
  });
}

function mapPath(): string {
  return join(options.directory, 'map.db');
}

async function storeAll(run: RealRun): Promise<Stored> {
  options = run;
  store = await openAgain();
  const opened = store;
  const fills: number[] = [];
  opened.on('trunk', ({ bytes }) => fills.push(bytes / run.trunkBytes));
  const errors: Error[] = [];
  opened.on('error', (error) => errors.push(error));
  const pool = randomBytes(POOL_BYTES);
  const sizes = sizesOf(run.meanBytes, run.seed);
  const start = performance.now();
  keys = new Array<string>(run.files);
  await drive({ operations: run.files, concurrency: IN_FLIGHT }, async (index) => {
    const size = sizes.next().value;
    const from = (index * 61) % (POOL_BYTES - size);
    const body = pool.subarray(from, from + size);
    const { key } = await opened.put(body, { name: ABOUT.nameOf(index), type: ABOUT.type });
    keys[index] = key;
  });
  const uploadSeconds = (performance.now() - start) / 1000;
  await opened.flush();
  while ((opened.stats().map?.pending ?? 0) > 0) await sleep(20);
  const seconds = (performance.now() - start) / 1000;
  for (const error of errors) throw error;
  return { uploadSeconds, seconds, trunks: fills.length, fills };
}

async function read({ exponent, warmUp, counted, seed }: Reads): ReturnType<RealHandlers['read']> {
  const opened = store!;
  const random = new SeededRandom(seed);
  const zipf = new Zipf(keys.length, exponent, () => random.next());
  const order = shuffled(keys.length, seed);
  const ask = async (operations: number) => {
    const before = opened.stats().cache;
    const { seconds } = await drive({ operations, concurrency: READS_IN_FLIGHT }, async () => {
      await (await opened.get(keys[order[zipf.next() - 1]!]!)).content();
    });
    const { hits, misses } = opened.stats().cache;
    const [hit, missed] = [hits - before.hits, misses - before.misses];
    if (hit + missed !== operations) throw new Error(`${hit + missed} of ${operations} were asked`);
    return { hitRatio: hit / operations, seconds };
  };
  await ask(Math.ceil(keys.length * warmUp));
  return ask(Math.ceil(keys.length * counted));
}

async function close(): Promise<Kept> {
  await store?.close();
  const directory = join(options.directory, 'store');
  const sizes = {
    fileMapBytes: await sizeWithLog(join(directory, 'filemap.sqlite')),
    mapBytes: await sizeWithLog(mapPath()),
  };
  const rows = rowsIn(mapPath());
  const start = performance.now();
  store = await openAgain();
  const restartSeconds = (performance.now() - start) / 1000;
  await store.close();
  store = undefined;
  const begun = performance.now();
  const map = `sqlite:${join(options.directory, 'rebuilt.db')}`;
  const report = await rebuildDeploymentMap({ map, trackers: options.trackers.join(',') });
  const [why] = report.unlisted;
  if (why !== undefined) throw new Error(why);
  if (report.files !== keys.length) {
    throw new Error(
      `${report.files} of ${keys.length} files in ${report.trunks} trunks were rebuilt, ${report.left} trunks left`,
    );
  }
  const rebuildSeconds = (performance.now() - begun) / 1000;
  return { ...sizes, ...rows, restartSeconds, rebuildSeconds, rebuiltFiles: report.files };
}

function rowsIn(path: string): { readonly mapRows: number; readonly mapTrunks: number } {
  const database = openDatabase(path, { readonly: true });
  const count = (table: string) =>
    database.prepare(`SELECT count(*) FROM ${table}`).pluck().get() as number;
  const rows = { mapRows: count('stevedore_file'), mapTrunks: count('stevedore_trunk') };
  database.close();
  return rows;
}

serve({ store: storeAll, read, close } satisfies RealHandlers, async () => store?.close());
