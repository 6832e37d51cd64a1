import { privateDisk } from '@stevedore/disk';
import type { FileRow, StagingOptions } from '@stevedore/staging';
import { mean, summarize } from '../harness/figures.js';
import { logUniform } from '../harness/file-set.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { VirtualTime } from '../harness/virtual-time.js';
import { newFile, stagingOptions } from '../staging/small-files.js';
import { SizesOnly } from '../staging/trunk-stores.js';
import {
  MONTH_SITES,
  type MonthSiteName,
  TRUNK_BYTES,
  WEEK_SITES,
  type WeekSiteName,
} from './sites.js';

/**
 * The simulated process: the real Staging, with its own decisions, its container on a real disk and
 * its FileMap, while time is virtual and FastDFS keeps nothing but sizes. All bodies are zeros.
 */

/** A month of a site whose files die, after months that fill FastDFS. */
export interface Month {
  readonly site: MonthSiteName;
  /** Days before the measured ones. */
  readonly daysBefore: number;
  readonly days: number;
  readonly perDay: number;
  readonly trunkSize: number;
  readonly mergeMaxAge: number;
  /** False: the Merge Task knows sizes alone, and the app deletes what has expired. */
  readonly tellsMore: boolean;
}

/** What is repeated more often is repeated that often. */
const INTERVAL = 'STEVEDORE_BENCH_INTERVAL_MS';
const BEGIN_MS = Date.UTC(2026, 0, 5);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const GIB = 2 ** 30;
/** FastDFS takes so many bytes a second. */
const STORE_BYTES_PER_SECOND = 100e6;
const SEEDS = { week: 77, month: 31, steady: 2026 } as const;
/** Of a week, 25 KB in the mean; of a month. */
const SIZES = { week: [2_000, 100_000], month: [2_000, 20_000] } as const;
const ZEROS = Buffer.alloc(SIZES.week[1]);
const MAX_ERRORS = 5;

const time = new VirtualTime(BEGIN_MS);
time.install(Number(process.env[INTERVAL]));
const { formatKey, Staging, parseKey } = await import('@stevedore/staging');
const { setTimeout: sleep } = await import('node:timers/promises');

async function openStaging(directory: string, fastdfs: SizesOnly, own: Partial<StagingOptions>) {
  const staging = await Staging.open(
    stagingOptions(directory, fastdfs.store, {
      ...{ idMaxAge: 7 * DAY_MS, containerSize: 20 * GIB, findsOrphans: false },
      ...{ disk: time.watched(privateDisk), now: time.now },
      ...own,
    }),
  );
  const errors: string[] = [];
  staging.changes.on('error', (error) => {
    if (errors.length < MAX_ERRORS) errors.push(error.stack ?? error.message);
  });
  // It waits for the disk, which lives in real time; and nothing here has to survive.
  staging.fileMap.makeDurable = () => Promise.resolve();
  const close = async () => {
    const closed = staging.close();
    await time.passUntil(time.now() + HOUR_MS);
    await closed;
  };
  return { staging, errors, close };
}

const sending = (bytes: number) => sleep((bytes / STORE_BYTES_PER_SECOND) * 1000);

/** Timers may be needed: uploads are held back while the disk is full. */
async function during(work: Promise<unknown>): Promise<void> {
  await time.passUntil(time.now());
  await work;
}

export async function simulateWeek(
  directory: string,
  site: WeekSiteName,
  hours: number,
  mergeMaxAge: number,
) {
  const fastdfs = new SizesOnly(sending);
  const own = { trunkSize: TRUNK_BYTES, mergeMaxAge, retain: GIB / 8 };
  const { staging, errors, close } = await openStaging(directory, fastdfs, own);
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
  const random = new SeededRandom(SEEDS.week).next;
  let uploadedBytes = 0;
  for (const { at, count } of WEEK_SITES[site].arrivals(hours * HOUR_MS)) {
    await time.passUntil(BEGIN_MS + at);
    const files = Array.from({ length: count }, () => {
      const body = ZEROS.subarray(0, logUniform(random, ...SIZES.week));
      const file = { ...newFile(staging, 0, body), stagedAt: time.now() };
      stagedAt.set(formatKey(file.key), time.now());
      uploadedBytes += body.length;
      return file;
    });
    await during(staging.acceptance.stage(files));
  }
  await time.passUntil(BEGIN_MS + hours * HOUR_MS + 2 * mergeMaxAge);
  const thin = new Set(fileMap.thinTrunks().map(({ id }) => id));
  const staying = fileMap.trunksIn('confirmed').filter(({ id }) => !thin.has(id));
  const fills = staying.map(({ size }) => size / TRUNK_BYTES);
  const missing = [...stagedAt.values()].map((at) => (time.now() - at) / 1000);
  const outcome = {
    uploadedBytes,
    /** Sent to FastDFS. */
    writtenBytes: fastdfs.storedBytes,
    /** Files in FastDFS at the end, and the most at any moment. */
    alive: fastdfs.files.size,
    mostAlive: fastdfs.mostFiles,
    /** Of trunks that stay: the least share of a full one that they are. */
    leastFill: summarize([1, ...fills]).min,
    /** Seconds from a file's upload until it is in FastDFS, at most; and until it has its id. */
    mostAge: summarize([0, ...ages, ...missing]).max,
    medianIdAge: idAges.length === 0 ? 0 : summarize(idAges).median,
    errors,
  };
  await close();
  return outcome;
}

export async function simulateMonth(directory: string, month: Month) {
  const { site, daysBefore, days, perDay, trunkSize, mergeMaxAge, tellsMore } = month;
  const fastdfs = new SizesOnly();
  const own = { trunkSize, mergeMaxAge, retain: 0 };
  const { staging, errors, close } = await openStaging(directory, fastdfs, own);
  const random = new SeededRandom(SEEDS.month);
  const uploads = MONTH_SITES[site].uploads(daysBefore + days, perDay, random);
  const events: { at: number; upload?: number; deletion?: number }[] = [];
  for (const [index, { at, deletedAt, expiresAt = Infinity }] of uploads.entries()) {
    const gone = tellsMore ? deletedAt : Math.min(deletedAt, expiresAt);
    events.push({ at, upload: index });
    if (gone < daysBefore + days) events.push({ at: Math.max(gone, at), deletion: index });
  }
  events.sort((a, b) => a.at - b.at);
  const keys = new Map<number, Buffer>();
  const shares: number[] = [];
  let uploaded = 0;
  let before: { readonly uploaded: number; readonly read: number } | undefined;
  let nextLook = daysBefore;
  for (const { at, upload, deletion } of events) {
    await time.passUntil(Math.round(BEGIN_MS + at * DAY_MS));
    if (at >= daysBefore) before ??= { uploaded, read: fastdfs.readBytes };
    if (at >= nextLook) {
      nextLook += 0.5;
      shares.push(fastdfs.bytes > 0 ? staging.stats().mergedBytes / fastdfs.bytes : 1);
    }
    if (upload !== undefined) {
      const { group, expiresAt } = uploads[upload]!;
      const body = ZEROS.subarray(0, logUniform(random.next, ...SIZES.month));
      const isTold = tellsMore && expiresAt !== undefined;
      const file = {
        ...{ ...newFile(staging, upload, body), stagedAt: time.now() },
        group: tellsMore ? group : undefined,
        ...(isTold ? { expiresAt: Math.round(BEGIN_MS + expiresAt * DAY_MS) } : {}),
      };
      keys.set(upload, file.key);
      uploaded += body.length;
      await during(staging.acceptance.stage([file]));
    } else if (deletion !== undefined) {
      const key = keys.get(deletion)!;
      keys.delete(deletion);
      await during(staging.deletions.delete(key));
    }
  }
  const members = [...keys].map(([upload, key]) => ({
    group: uploads[upload]!.group,
    row: staging.fileMap.find(key),
  }));
  const outcome = {
    uploadedBytes: uploaded - (before?.uploaded ?? 0),
    /** Read from FastDFS to be written again, by compaction and joining: nothing is kept locally. */
    rewrittenBytes: fastdfs.readBytes - (before?.read ?? 0),
    /** Share of the bytes in FastDFS that live, in the mean. */
    aliveShare: mean(shares),
    extentsOfGroup: extentsOfGroup(members),
    errors,
  };
  await close();
  return outcome;
}

/** Files of any mean size, one after the other, at random times. */
export interface SteadySite {
  readonly filesPerSecond: number;
  readonly files: number;
  readonly meanBytes: number;
  readonly trunkSize: number;
  readonly mergeMaxAge: number;
  readonly idMaxAge: number;
  /** All that waits at the end is merged. */
  readonly flushes: boolean;
}

/** Log-uniform between these shares of the mean, the mean is one. */
const SHARES = [1 / 8, 3.44] as const;

export type SteadyOutcome = Awaited<ReturnType<typeof simulateSteady>>;

/** The same site gives the same trunks. Its FileMap stays, with all that a map is to be told. */
export async function simulateSteady(directory: string, site: SteadySite) {
  const { filesPerSecond, files, meanBytes, trunkSize, flushes, ...ages } = site;
  const fastdfs = new SizesOnly(sending);
  const own = { trunkSize, ...ages, retain: GIB / 8, publishes: 'changes' } as const;
  const { staging, errors, close } = await openStaging(directory, fastdfs, own);
  const { fileMap } = staging;
  let storedFiles = 0;
  const confirm = fileMap.confirmMembers.bind(fileMap);
  fileMap.confirmMembers = (trunk, members) => {
    storedFiles += members.length;
    return confirm(trunk, members);
  };
  const random = new SeededRandom(SEEDS.steady);
  let bytes = 0;
  let at = BEGIN_MS;
  for (let index = 0; index < files; index += 1) {
    at += random.exponential(1000 / filesPerSecond);
    await time.passUntil(Math.round(at));
    const size = logUniform(random.next, SHARES[0] * meanBytes, SHARES[1] * meanBytes);
    const file = newFile(staging, index, ZEROS.subarray(0, Math.max(1, size)));
    bytes += file.size;
    await during(staging.acceptance.stage([{ ...file, stagedAt: time.now() }]));
  }
  if (flushes) await time.passDuring(staging.merging.flush());
  const thin = new Set(fileMap.thinTrunks().map(({ id }) => id));
  const staying = fileMap.trunksIn('confirmed').filter(({ id }) => !thin.has(id));
  const { waitingFiles, waitingBytes } = staging.stats();
  const outcome = {
    ...{ files, bytes, storedFiles, stored: fastdfs.stored, storedBytes: fastdfs.storedBytes },
    staying: staying.length,
    stayingFiles: staying.reduce((sum, trunk) => sum + trunk.files - trunk.deadFiles, 0),
    stayingBytes: staying.reduce((sum, { size }) => sum + size, 0),
    /** How full they are. */
    fills: staying.map(({ size }) => size / trunkSize),
    ...{ thin: thin.size, waitingFiles, waitingBytes },
    ...{ seconds: (time.now() - BEGIN_MS) / 1000, errors },
  };
  await close();
  return outcome;
}

interface Member {
  readonly group: string | undefined;
  readonly row: FileRow | undefined;
}

/**
 * Into how many pieces a group is scattered, in the mean; 1 if there are none. A piece: living files
 * in a trunk between which nothing else lies.
 */
function extentsOfGroup(members: readonly Member[]): number {
  const groups = new Map<string, FileRow[]>();
  for (const { group, row } of members) {
    if (group === undefined || !row?.trunk) continue;
    groups.set(group, [...(groups.get(group) ?? []), row]);
  }
  let extents = 0;
  for (const rows of groups.values()) {
    rows.sort((a, b) => a.trunk!.id - b.trunk!.id || a.trunk!.offset - b.trunk!.offset);
    extents += rows.filter((row, index) => !isBehind(rows[index - 1], row)).length;
  }
  return groups.size === 0 ? 1 : extents / groups.size;
}

function isBehind(before: FileRow | undefined, { trunk }: FileRow): boolean {
  if (!trunk || before?.trunk?.id !== trunk.id) return false;
  return trunk.offset - before.trunk.offset - before.size < SIZES.month[0];
}
