import { randomFillSync } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { privateDisk } from '@stevedore/disk';
import type { FileRow, TrunkStore } from '@stevedore/staging';
import { logUniform } from '../harness/file-set.js';
import { seededRandom } from '../harness/seeded-random.js';
import { serve } from '../harness/serve.js';
import { trunkFileId } from '../staging/trunk-stores.js';
import { MONTH_SITES, type MonthSiteName } from './months.js';
import { VirtualTime } from './virtual-time.js';

/**
 * The simulated process: a month of a site whose files die, after months that fill FastDFS. As
 * in week-process.ts, Staging is real, time is virtual and FastDFS keeps sizes alone.
 */

export interface Month {
  readonly site: MonthSiteName;
  readonly directory: string;
  /** Days before the measured ones. */
  readonly daysBefore: number;
  readonly days: number;
  readonly perDay: number;
  readonly trunkSize: number;
  readonly mergeMaxAge: number;
  /** False: the Merge Task knows sizes alone, and the app deletes what has expired. */
  readonly tellsMore: boolean;
}

export interface MonthOutcome {
  readonly uploadedBytes: number;
  /** Bytes read from FastDFS to be written again, by compaction and joining. */
  readonly rewrittenBytes: number;
  /** Share of the bytes in FastDFS that live, in the mean. */
  readonly aliveShare: number;
  /** Into how many pieces a group is scattered in the end, in the mean; 1 if there are none. */
  readonly extentsOfGroup: number;
  readonly errors: readonly string[];
}

export type MonthHandlers = { readonly simulateMonth: (month: Month) => Promise<MonthOutcome> };

const DAY_MS = 86_400_000;
const BEGIN_MS = Date.UTC(2026, 0, 5);
const GIB = 2 ** 30;
const MIN_BYTES = 2_000;
const MAX_BYTES = 20_000;
const ZEROS = Buffer.alloc(MAX_BYTES);
const SEED = 31;
/** Months would take hours otherwise. */
const INTERVAL_MS = 600_000;

const time = new VirtualTime(BEGIN_MS);
time.install(INTERVAL_MS);
const { Staging, smallFile } = await import('@stevedore/staging');

class Sizes {
  readonly #sizes = new Map<string, number>();
  #count = 0;
  bytes = 0;
  /** By compaction and joining alone: nothing is kept locally. */
  readBytes = 0;

  readonly store: TrunkStore = {
    store: async ({ size, extension, chunks }) => {
      let crc = 0;
      for await (const chunk of chunks()) crc = crc32(chunk, crc);
      this.#count += 1;
      const fileId = trunkFileId(this.#count, size, crc, extension);
      this.#sizes.set(fileId, size);
      this.bytes += size;
      return fileId;
    },
    remove: async (fileId) => {
      this.bytes -= this.#sizes.get(fileId) ?? 0;
      this.#sizes.delete(fileId);
    },
    read: async (_fileId, _offset, length) => {
      this.readBytes += length;
      return ZEROS.subarray(0, length);
    },
    copies: async () => ({ holders: ['127.0.0.1:23000'], members: 1 }),
    sizeOf: async (fileId) => this.#sizes.get(fileId),
    list: async () => [],
  };
}

async function simulateMonth(month: Month): Promise<MonthOutcome> {
  const { site, directory, daysBefore, days, perDay, trunkSize, mergeMaxAge, tellsMore } = month;
  const fastdfs = new Sizes();
  const staging = await Staging.open({
    ...{ directory, trunkSize, mergeMaxAge, connect: async () => fastdfs.store },
    ...{ idMaxAge: 7 * DAY_MS, containerSize: 20 * GIB, retain: 0, durability: 'os' },
    ...{ disk: time.watched(privateDisk), now: time.now, packingSeed: 1, findsOrphans: false },
    randomFill: (target) => randomFillSync(target),
  });
  const errors: string[] = [];
  staging.changes.on('error', (error) => errors.push(error.stack ?? error.message));
  // It waits for the disk, which lives in real time; and nothing here has to survive.
  staging.fileMap.makeDurable = () => Promise.resolve();
  const random = seededRandom(SEED);
  const uploads = MONTH_SITES[site].uploads(daysBefore + days, perDay, random);
  const events: { at: number; upload?: number; deletion?: number }[] = [];
  for (const [index, { at, deletedAt, expiresAt = Infinity }] of uploads.entries()) {
    const gone = tellsMore ? deletedAt : Math.min(deletedAt, expiresAt);
    events.push({ at, upload: index });
    if (gone < daysBefore + days) events.push({ at: Math.max(gone, at), deletion: index });
  }
  events.sort((a, b) => a.at - b.at);
  const keys = new Map<number, Buffer>();
  let [uploaded, shares, looks, isMeasured] = [0, 0, 0, false];
  let before = { uploaded: 0, read: 0 };
  let nextLook = daysBefore;
  for (const { at, upload, deletion } of events) {
    await time.passUntil(Math.round(BEGIN_MS + at * DAY_MS));
    if (at >= daysBefore && !isMeasured) {
      isMeasured = true;
      before = { uploaded, read: fastdfs.readBytes };
    }
    if (at >= nextLook) {
      nextLook += 0.5;
      looks += 1;
      shares += fastdfs.bytes > 0 ? staging.stats().mergedBytes / fastdfs.bytes : 1;
    }
    if (upload !== undefined) {
      const { group, expiresAt } = uploads[upload]!;
      const size = logUniform(random, MIN_BYTES, MAX_BYTES);
      const body = ZEROS.subarray(0, size);
      const key = staging.keys.next();
      keys.set(upload, key);
      uploaded += size;
      const told =
        expiresAt === undefined ? {} : { expiresAt: Math.round(BEGIN_MS + expiresAt * DAY_MS) };
      const file = {
        ...{ key, name: 'upload.jpg', type: 'image/jpeg', size, crc32: crc32(body) },
        ...{ group: tellsMore ? group : undefined, stagedAt: time.now() },
        ...(tellsMore ? told : {}),
      };
      const staged = staging.acceptance.stage([smallFile(file, [body])]);
      await time.passUntil(time.now());
      await staged;
    } else {
      const key = keys.get(deletion!)!;
      keys.delete(deletion!);
      const deleted = staging.deletions.delete(key);
      await time.passUntil(time.now());
      await deleted;
    }
  }
  const outcome = {
    uploadedBytes: uploaded - before.uploaded,
    rewrittenBytes: fastdfs.readBytes - before.read,
    aliveShare: shares / Math.max(1, looks),
    extentsOfGroup: extentsOfGroup(
      [...keys].map(([upload, key]) => ({
        group: uploads[upload]!.group,
        row: staging.fileMap.find(key),
      })),
    ),
    errors: errors.slice(0, 5),
  };
  const closed = staging.close();
  await time.passUntil(time.now() + 3_600_000);
  await closed;
  return outcome;
}

interface Member {
  readonly group: string | undefined;
  readonly row: FileRow | undefined;
}

/** Of living files in trunks: ranges of bytes in which nothing else lies, for each group. */
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
  if (before?.trunk?.id !== trunk!.id) return false;
  return trunk!.offset - before.trunk.offset - before.size < MIN_BYTES;
}

serve({ simulateMonth } satisfies MonthHandlers, () => Promise.resolve());
