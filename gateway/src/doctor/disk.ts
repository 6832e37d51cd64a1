import { mkdir, open, readdir, rename, rm, stat, statfs, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { formatBytes } from '@stevedore/options';
import type { GatewayOptions } from '../options.js';
import { type Finding, judged, ok, problem, warning } from './finding.js';

/** Checks the directory and its disk: permissions, space, and the cost of a sync. */

const SYNC_ROUNDS = 64;
const SYNC_TIME_MS = 2_000;
const SYNC_BYTES = 4096;
const SLOW_SYNC_MS = 20;
/** Faster than any disk that really syncs. */
const UNBELIEVABLE_SYNC_MS = 0.02;
const MIN_FREE_BYTES = 64 * 2 ** 20;
const MIN_FREE_INODES = 10_000;
/** File systems in memory: tmpfs, ramfs. */
const MEMORY_FILE_SYSTEMS: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);

/** By the code of the system's error. */
const RIGHTS_ADVICE: Readonly<Record<string, string>> = {
  EACCES: 'give this user the right to write there, or name another directory',
  EPERM: 'give this user the right to write there, or name another directory',
  EROFS: 'mount it for writing, or name another directory',
  ENOSPC: 'the disk is full, or out of inodes: make room, or name another directory',
  EDQUOT: "this user's quota is used up: make room, or name another directory",
};

/** The directory itself, or its nearest existing parent. */
async function existingFolder(directory: string): Promise<string> {
  for (let path = directory; ; path = dirname(path)) {
    const found = await stat(path).catch(() => undefined);
    if (found?.isDirectory() || path === dirname(path)) return path;
    if (found) throw new Error(`${path} is not a directory`);
  }
}

/** Does everything that a store does to files there; leaves nothing behind. */
export async function checkRights(directory: string): Promise<Finding> {
  const what = 'directory';
  try {
    const folder = await existingFolder(directory);
    const trial = join(folder, `.stevedore-doctor-${process.pid}`);
    await mkdir(trial);
    try {
      const handle = await open(join(trial, 'a'), 'wx');
      await handle.write('x');
      await handle.datasync();
      await handle.close();
      await rename(join(trial, 'a'), join(trial, 'b'));
      await unlink(join(trial, 'b'));
    } finally {
      await rm(trial, { recursive: true, force: true });
    }
    const made = folder === directory ? '' : ', made at the first start';
    return ok(what, `${directory} can be written${made}`);
  } catch (error) {
    return judgeRights(directory, error);
  }
}

/** The result of an attempt to write there. */
export function judgeRights(directory: string, error: unknown): Finding {
  const { message, code = '' } = error as NodeJS.ErrnoException;
  const detail = `${directory} cannot be used: ${message}`;
  return problem('directory', detail, RIGHTS_ADVICE[code] ?? 'name another directory');
}

/** Median milliseconds of writing 4 KiB and syncing it, as often as fits into two seconds. */
export async function measureSync(directory: string): Promise<readonly number[]> {
  const path = join(await existingFolder(directory), `.stevedore-doctor-sync-${process.pid}`);
  const handle = await open(path, 'wx');
  const times: number[] = [];
  try {
    const block = Buffer.alloc(SYNC_BYTES, 'sync');
    const until = performance.now() + SYNC_TIME_MS;
    while (times.length < SYNC_ROUNDS && performance.now() < until) {
      const startedAt = performance.now();
      await handle.write(block, 0, block.length, times.length * SYNC_BYTES);
      await handle.datasync();
      times.push(performance.now() - startedAt);
    }
  } finally {
    await handle.close();
    await unlink(path);
  }
  return times;
}

export function judgeSync(timesMs: readonly number[], durability: 'sync' | 'os'): Finding {
  const sorted = [...timesMs].sort((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const slowest = sorted.at(-1) ?? 0;
  const detail = `a sync takes ${ms(median)}, the slowest of ${sorted.length} took ${ms(slowest)}`;
  if (durability === 'os') {
    return warning(
      'sync',
      `${detail}; durability is os`,
      'an upload is acknowledged before it is on the disk: a power failure loses files; set durability to sync',
    );
  }
  const slow =
    'each upload waits at least that long: use a disk with a protected write cache (most NVMe for servers), not a network volume';
  const unbelievable =
    'no disk is that fast: syncs are ignored on the way to it; put the directory on a real disk';
  return judged(
    'sync',
    detail,
    [median > SLOW_SYNC_MS, slow],
    [median < UNBELIEVABLE_SYNC_MS, unbelievable],
  );
}

export interface DiskFacts {
  readonly freeBytes: number;
  readonly freeInodes: number;
  readonly inodes: number;
  readonly type: number;
  /** Bytes of the container and the spool that are already on that disk. */
  readonly usedBytes: number;
}

export async function diskFacts(directory: string): Promise<DiskFacts> {
  const folder = await existingFolder(directory);
  const { bavail, bsize, ffree, files, type } = await statfs(folder);
  const usedBytes =
    (await folderBytes(directory, 'container')) + (await folderBytes(directory, 'spool'));
  return { freeBytes: bavail * bsize, freeInodes: ffree, inodes: files, type, usedBytes };
}

async function folderBytes(directory: string, name: string): Promise<number> {
  const folder = join(directory, name);
  let bytes = 0;
  for (const file of await readdir(folder).catch(() => [])) {
    bytes += (await stat(join(folder, file)).catch(() => undefined))?.size ?? 0;
  }
  return bytes;
}

export function judgeRoom(
  facts: DiskFacts,
  { containerSize }: Pick<GatewayOptions, 'containerSize'>,
): Finding[] {
  const { freeBytes, usedBytes, inodes, freeInodes, type } = facts;
  const wanted = containerSize + MIN_FREE_BYTES;
  const detail = `${formatBytes(freeBytes)} free; the container may grow to ${formatBytes(containerSize)}`;
  const full = `uploads are refused below ${formatBytes(MIN_FREE_BYTES)}: make room`;
  const tooSmall =
    'lower containerSize to what the disk has: the gateway then refuses uploads before the disk is full';
  const findings = [
    judged(
      'room',
      detail,
      [freeBytes < MIN_FREE_BYTES, full, problem],
      [freeBytes + usedBytes < wanted, tooSmall],
    ),
  ];
  // Some file systems have no fixed number of them and report 0.
  if (inodes > 0 && freeInodes < MIN_FREE_INODES) {
    const advice =
      'remove small files from this disk, or recreate its file system with more inodes';
    findings.push(warning('inodes', `${freeInodes} files can still be made`, advice));
  }
  if (MEMORY_FILE_SYSTEMS.has(type)) {
    const advice = 'everything in it is gone after a restart of the machine: put it on a disk';
    findings.push(problem('disk', 'the directory is in memory', advice));
  }
  return findings;
}

function ms(value: number): string {
  return `${value.toFixed(value < 1 ? 3 : 1)} ms`;
}
