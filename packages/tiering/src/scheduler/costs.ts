import { join } from 'node:path';
import { type Disk, readSmallFile, removeIfThere, replaceFile } from '@stevedore/disk';

/**
 * What a request costs, in bytes that the disk could have written durably instead. Reads
 * and synced writes differ by orders of magnitude: each has a cost of its own. Pure.
 */

export interface Costs {
  /** B_logic: bytes of large synced writes in a second. */
  readonly bytesPerSecond: number;
  /** Of a synced write of few bytes, beside those. */
  readonly accessBytes: number;
  /** Of a read of few bytes, beside those. */
  readonly readAccessBytes: number;
  /** A byte that is read, against one that is written. */
  readonly readByteShare: number;
}

export type Access = 'read' | 'write';

export function costOf(costs: Costs, access: Access, bytes: number): number {
  return access === 'write'
    ? bytes + costs.accessBytes
    : bytes * costs.readByteShare + costs.readAccessBytes;
}

/**
 * What reads and synced writes cost on the disk of a store path: measured once, in well
 * under a second on a usual disk, and kept. An operator who knows better gives B_logic and the
 * costs of an access.
 */

const CALIBRATION_FILE = '.stevedore-calibration.json';
const LARGE_BYTES = 2 * 2 ** 20;
const LARGE_COUNT = 8;
const SMALL_BYTES = 1024;
const SMALL_COUNT = 16;

/** What was measured at an earlier start, or now. `clock` gives milliseconds. */
export async function calibrate(
  disk: Disk,
  dataDirectory: string,
  temporaryFile: string,
  clock: () => number,
): Promise<Costs> {
  const kept = await load(disk, dataDirectory);
  if (kept) return kept;
  const measured = await measure(disk, temporaryFile, clock);
  await replaceFile(disk, dataDirectory, CALIBRATION_FILE, `${JSON.stringify(measured)}\n`);
  return measured;
}

async function load(disk: Disk, directory: string): Promise<Costs | undefined> {
  const bytes = await readSmallFile(disk, join(directory, CALIBRATION_FILE), SMALL_BYTES);
  if (!bytes) return undefined;
  try {
    const kept = JSON.parse(bytes.toString()) as Partial<Record<keyof Costs, unknown>>;
    const { bytesPerSecond, accessBytes, readAccessBytes, readByteShare } = kept;
    const all = { bytesPerSecond, accessBytes, readAccessBytes, readByteShare };
    const isWhole = Object.values(all).every((value) => typeof value === 'number' && value >= 0);
    return isWhole && all.bytesPerSecond !== 0 ? (all as Costs) : undefined;
  } catch {
    return undefined;
  }
}

async function measure(disk: Disk, path: string, clock: () => number): Promise<Costs> {
  const file = await disk.create(path);
  try {
    let position = 0;
    const write = async (bytes: number): Promise<void> => {
      await file.writeAt([Buffer.alloc(bytes, 0x5a)], position);
      await file.sync();
      position += bytes;
    };
    const read = async (bytes: number): Promise<void> => {
      position = (position + LARGE_BYTES) % (LARGE_BYTES * (LARGE_COUNT - 1));
      await file.readAt(Buffer.allocUnsafe(bytes), position);
    };
    /** Of one; a clock that stands still is no reason to divide by nothing. */
    const timed = async (
      count: number,
      bytes: number,
      access: (bytes: number) => Promise<void>,
    ): Promise<number> => {
      const begun = clock();
      for (let done = 0; done < count; done += 1) await access(bytes);
      return Math.max(clock() - begun, 0.001) / count;
    };
    const smallWriteMs = await timed(SMALL_COUNT, SMALL_BYTES, write);
    const largeWriteMs = await timed(LARGE_COUNT, LARGE_BYTES, write);
    const smallReadMs = await timed(SMALL_COUNT, SMALL_BYTES, read);
    const largeReadMs = await timed(LARGE_COUNT, LARGE_BYTES, read);
    const bytesPerMs = LARGE_BYTES / largeWriteMs;
    const beyond = (ms: number, bytes: number): number =>
      Math.max(0, Math.round(ms * bytesPerMs - bytes));
    const readByteShare = Math.min(1, largeReadMs / largeWriteMs);
    return {
      bytesPerSecond: Math.round(bytesPerMs * 1000),
      accessBytes: beyond(smallWriteMs, SMALL_BYTES),
      readAccessBytes: beyond(smallReadMs, SMALL_BYTES * readByteShare),
      readByteShare,
    };
  } finally {
    await file.close();
    await removeIfThere(disk, path);
  }
}
