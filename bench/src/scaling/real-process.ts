import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { type FileStore, open } from '@stevedore/client';
import { openDatabase } from '@stevedore/disk/sqlite';
import { drive, startClock, until } from '../harness/load.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { Zipf } from '../harness/zipf.js';
import { ranksShuffled } from './cache-model.js';
import { ABOUT, sizesOf } from './files.js';
import { sizeWithLog } from './indexes.js';

/** The measured process: an application with a store, a map and a storage of its own. */

interface RealRun {
  readonly directory: string;
  readonly trackers: readonly string[];
  readonly files: number;
  readonly meanBytes: number;
  readonly trunkBytes: number;
  readonly cacheBytes: number;
  readonly seed: number;
}

interface Reads {
  readonly exponent: number;
  readonly warmUp: number;
  readonly counted: number;
  readonly seed: number;
}

const IN_FLIGHT = 64;
const READS_IN_FLIGHT = 8;
const POOL_BYTES = 2 ** 22;
const PUBLISH_LIMIT_MS = 600_000;

let store: FileStore | undefined;
let keys: string[] = [];

const mapIn = (directory: string): string => join(directory, 'map.db');

export async function fill(run: RealRun) {
  const { directory, trackers, trunkBytes, cacheBytes } = run;
  const opened = await open({
    ...{ directory: join(directory, 'store'), trackers, map: `sqlite:${mapIn(directory)}` },
    ...{ trunkSize: trunkBytes, smallFileLimit: trunkBytes / 2, cacheSize: cacheBytes },
    // Nothing of this waits for a disk, and no background walk reads beside.
    ...{ durability: 'os', scrubRate: 0, readAhead: '1MiB' },
  });
  store = opened;
  const fills: number[] = [];
  opened.on('trunk', ({ bytes }) => fills.push(bytes / run.trunkBytes));
  const errors: Error[] = [];
  opened.on('error', (error) => errors.push(error));
  const pool = randomBytes(POOL_BYTES);
  const sizes = sizesOf(run.meanBytes, run.seed);
  const clock = startClock();
  keys = new Array<string>(run.files);
  await drive({ operations: run.files, concurrency: IN_FLIGHT }, async (index) => {
    const size = sizes.next().value;
    const from = (index * 61) % (POOL_BYTES - size);
    const about = { name: ABOUT.nameOf(index), type: ABOUT.type };
    keys[index] = (await opened.put(pool.subarray(from, from + size), about)).key;
  });
  const uploadSeconds = clock().seconds;
  await opened.flush();
  const isPublished = () => (opened.stats().map?.pending ?? 0) === 0;
  await until('the map has all files', isPublished, PUBLISH_LIMIT_MS);
  for (const error of errors) throw error;
  /** How full each trunk is. */
  return { uploadSeconds, fills };
}

/** The share of the counted reads that memory answered. */
export async function read({ exponent, warmUp, counted, seed }: Reads) {
  const opened = store!;
  const random = new SeededRandom(seed);
  const zipf = new Zipf(keys.length, exponent, random.next);
  const order = ranksShuffled(keys.length, seed);
  const ask = async (operations: number) => {
    const before = opened.stats().cache;
    await drive({ operations, concurrency: READS_IN_FLIGHT }, async () => {
      await (await opened.get(keys[order[zipf.next() - 1]! - 1]!)).content();
    });
    const { hits, misses } = opened.stats().cache;
    const [hit, missed] = [hits - before.hits, misses - before.misses];
    if (hit + missed !== operations) throw new Error(`${hit + missed} of ${operations} were asked`);
    return { hitRatio: hit / operations };
  };
  await ask(Math.ceil(keys.length * warmUp));
  return ask(Math.ceil(keys.length * counted));
}

/** Closes the store and looks at what it leaves. */
export async function leaves(directory: string) {
  await close();
  const fileMapBytes = await sizeWithLog(join(directory, 'store', 'filemap.sqlite'));
  const mapBytes = await sizeWithLog(mapIn(directory));
  const database = openDatabase(mapIn(directory), { readonly: true });
  const counting = database.prepare('SELECT count(*) FROM stevedore_file').pluck();
  const mapRows = counting.get() as number;
  database.close();
  return { fileMapBytes, mapBytes, mapRows };
}

export async function close(): Promise<void> {
  await store?.close();
  store = undefined;
}
