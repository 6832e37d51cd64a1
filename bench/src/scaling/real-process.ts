import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { type FileStore, open, rebuildDeploymentMap } from '@stevedore/client';
import { openDatabase } from '@stevedore/disk/sqlite';
import { drive, startClock, until } from '../harness/load.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { Zipf } from '../harness/zipf.js';
import { ranksShuffled } from './cache-model.js';
import { ABOUT, sizesOf } from './files.js';
import { sizeWithLog } from './sized-map.js';

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

export async function fill(run: RealRun) {
  options = run;
  store = await openAgain();
  const opened = store;
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
  /** Until all is merged and published; how full each trunk is. */
  return { uploadSeconds, seconds: clock().seconds, fills };
}

/** The share of the counted reads that memory answered. */
export async function read({ exponent, warmUp, counted, seed }: Reads) {
  const opened = store!;
  const random = new SeededRandom(seed);
  const zipf = new Zipf(keys.length, exponent, () => random.next());
  const order = ranksShuffled(keys.length, seed);
  const ask = async (operations: number) => {
    const before = opened.stats().cache;
    const { seconds } = await drive({ operations, concurrency: READS_IN_FLIGHT }, async () => {
      await (await opened.get(keys[order[zipf.next() - 1]! - 1]!)).content();
    });
    const { hits, misses } = opened.stats().cache;
    const [hit, missed] = [hits - before.hits, misses - before.misses];
    if (hit + missed !== operations) throw new Error(`${hit + missed} of ${operations} were asked`);
    return { hitRatio: hit / operations, seconds };
  };
  await ask(Math.ceil(keys.length * warmUp));
  return ask(Math.ceil(keys.length * counted));
}

/** Closes the store and looks at what it leaves. */
export async function looked() {
  await close();
  const fileMapBytes = await sizeWithLog(join(options.directory, 'store', 'filemap.sqlite'));
  const mapBytes = await sizeWithLog(mapPath());
  const database = openDatabase(mapPath(), { readonly: true });
  const counting = database.prepare('SELECT count(*) FROM stevedore_file').pluck();
  const mapRows = counting.get() as number;
  database.close();
  const restart = startClock();
  store = await openAgain();
  const restartSeconds = restart().seconds;
  await close();
  const rebuild = startClock();
  const map = `sqlite:${join(options.directory, 'rebuilt.db')}`;
  const report = await rebuildDeploymentMap({ map, trackers: options.trackers.join(',') });
  const [why] = report.unlisted;
  if (why !== undefined) throw new Error(why);
  if (report.files !== keys.length) {
    throw new Error(
      `${report.files} of ${keys.length} files in ${report.trunks} trunks were rebuilt, ${report.left} trunks left`,
    );
  }
  return { fileMapBytes, mapBytes, mapRows, restartSeconds, rebuildSeconds: rebuild().seconds };
}

export async function close(): Promise<void> {
  await store?.close();
  store = undefined;
}
