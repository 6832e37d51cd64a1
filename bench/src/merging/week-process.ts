import { randomFillSync } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { privateDisk } from '@stevedore/disk';
import type { NewFile, TrunkStore } from '@stevedore/staging';
import { logUniform } from '../harness/file-set.js';
import { seededRandom } from '../harness/seeded-random.js';
import { serve } from '../harness/serve.js';
import { median } from '../harness/statistics.js';
import { trunkFileId } from '../staging/trunk-stores.js';
import { MAX_FILE_BYTES, MIN_FILE_BYTES, SITES, type SiteName, TRUNK_BYTES } from './sites.js';
import { VirtualTime } from './virtual-time.js';

/**
 * The simulated process: the real Staging, with its own decisions, its container on a real disk and
 * its FileMap, while time is virtual and FastDFS keeps nothing but names. All bodies are zeros.
 */

export interface Week {
  readonly site: SiteName;
  readonly directory: string;
  readonly hours: number;
  readonly mergeMaxAge: number;
  readonly joins: boolean;
}

export interface Outcome {
  readonly uploadedBytes: number;
  readonly uploadedFiles: number;
  /** Sent to FastDFS. */
  readonly writtenBytes: number;
  /** Files in FastDFS at the end, and the most at any moment. */
  readonly alive: number;
  readonly mostAlive: number;
  /** Trunks that stay, and the least and median share of a full one that they are. */
  readonly staying: number;
  readonly leastFill: number;
  readonly medianFill: number;
  /** Seconds from a file's upload until it is in FastDFS. */
  readonly medianAge: number;
  readonly mostAge: number;
  /** Seconds from a file's upload until it has its id: of those that have one. */
  readonly medianIdAge: number;
  readonly mostIdAge: number;
  readonly errors: readonly string[];
}

export type WeekHandlers = { readonly simulate: (week: Week) => Promise<Outcome> };

const BEGIN_MS = Date.UTC(2026, 0, 5);
const HOUR_MS = 3_600_000;
/** FastDFS takes so many bytes a second. */
const STORE_BYTES_PER_SECOND = 100e6;
const GIB = 2 ** 30;
const ZEROS = Buffer.alloc(MAX_FILE_BYTES);
const SEED = 77;

const time = new VirtualTime(BEGIN_MS);
time.install();
const { formatKey, Staging, parseKey, smallFile } = await import('@stevedore/staging');
const { setTimeout: sleep } = await import('node:timers/promises');

/** Keeps the sizes of what is stored. */
class NamesOnly {
  readonly files = new Map<string, number>();
  mostAlive = 0;
  writtenBytes = 0;
  #count = 0;

  readonly store: TrunkStore = {
    store: async ({ size, extension, chunks }) => {
      let crc = 0;
      for await (const chunk of chunks()) crc = crc32(chunk, crc);
      await sleep((size / STORE_BYTES_PER_SECOND) * 1000);
      this.#count += 1;
      const fileId = trunkFileId(this.#count, size, crc, extension);
      this.files.set(fileId, size);
      this.writtenBytes += size;
      this.mostAlive = Math.max(this.mostAlive, this.files.size);
      return fileId;
    },
    remove: async (fileId) => {
      this.files.delete(fileId);
    },
    read: async (_fileId, _offset, length) => ZEROS.subarray(0, length),
    copies: async () => ({ holders: ['127.0.0.1:23000'], members: 1 }),
    sizeOf: async (fileId) => this.files.get(fileId),
    list: async () => [],
  };
}

async function simulate({ site, directory, hours, mergeMaxAge, joins }: Week): Promise<Outcome> {
  const fastdfs = new NamesOnly();
  const staging = await Staging.open({
    directory,
    connect: async () => fastdfs.store,
    trunkSize: TRUNK_BYTES,
    mergeMaxAge,
    idMaxAge: joins ? 7 * 24 * HOUR_MS : 0,
    containerSize: 20 * GIB,
    retain: GIB / 8,
    durability: 'os',
    disk: time.watched(privateDisk),
    now: time.now,
    randomFill: (target) => randomFillSync(target),
    packingSeed: 1,
    findsOrphans: false,
  });
  const errors: string[] = [];
  staging.changes.on('error', (error) => errors.push(error.message));
  const ages: number[] = [];
  const idAges: number[] = [];
  const stagedAt = new Map<string, number>();
  const { fileMap } = staging;
  const confirm = fileMap.confirmMembers.bind(fileMap);
  // The first place that a file has in FastDFS.
  fileMap.confirmMembers = (trunk, members) => {
    const confirmed = confirm(trunk, members);
    for (const { key } of members) {
      const name = formatKey(key);
      const since = stagedAt.get(name);
      stagedAt.delete(name);
      if (since !== undefined) ages.push((time.now() - since) / 1000);
    }
    return confirmed;
  };
  staging.changes.on('merged', ({ key }) => {
    idAges.push((time.now() - parseKey(key)!.readUIntBE(0, 6)) / 1000);
  });
  // It waits for the disk, which lives in real time; and nothing here has to survive.
  fileMap.makeDurable = () => Promise.resolve();
  const random = seededRandom(SEED);
  let uploadedBytes = 0;
  let uploadedFiles = 0;
  for (const { at, count } of SITES[site].arrivals(hours * HOUR_MS)) {
    await time.passUntil(BEGIN_MS + at);
    const files: NewFile[] = [];
    for (let index = 0; index < count; index += 1) {
      const size = logUniform(random, MIN_FILE_BYTES, MAX_FILE_BYTES);
      const body = ZEROS.subarray(0, size);
      const key = staging.keys.next();
      stagedAt.set(formatKey(key), time.now());
      uploadedBytes += size;
      uploadedFiles += 1;
      const facts = {
        ...{ key, name: 'upload.jpg', type: 'image/jpeg', group: undefined, size },
        ...{ crc32: crc32(body), stagedAt: time.now() },
      };
      files.push(smallFile(facts, [body]));
    }
    const staged = staging.acceptance.stage(files);
    // Timers may be needed: uploads are held back while the disk is full.
    await time.passUntil(time.now());
    await staged;
  }
  await time.passUntil(BEGIN_MS + hours * HOUR_MS + 2 * mergeMaxAge);
  const thin = new Set(fileMap.thinTrunks().map(({ id }) => id));
  const confirmed = fileMap.trunksIn('confirmed').filter(({ id }) => !thin.has(id));
  const fills = confirmed.map(({ size }) => size / TRUNK_BYTES);
  const outcome: Outcome = {
    ...{ uploadedBytes, uploadedFiles, writtenBytes: fastdfs.writtenBytes },
    ...{ alive: fastdfs.files.size, mostAlive: fastdfs.mostAlive, staying: confirmed.length },
    leastFill: fills.reduce((least, fill) => Math.min(least, fill), 1),
    medianFill: middle(fills),
    medianAge: middle(ages),
    mostAge: most([...ages, ...[...stagedAt.values()].map((at) => (time.now() - at) / 1000)]),
    medianIdAge: middle(idAges),
    mostIdAge: most(idAges),
    errors: errors.slice(0, 5),
  };
  const closed = staging.close();
  await time.passUntil(time.now() + HOUR_MS);
  await closed;
  return outcome;
}

function middle(values: readonly number[]): number {
  return values.length === 0 ? 0 : median(values);
}

function most(values: readonly number[]): number {
  return values.reduce((found, value) => Math.max(found, value), 0);
}

serve({ simulate } satisfies WeekHandlers, () => Promise.resolve());
