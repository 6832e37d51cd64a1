import { join } from 'node:path';
import { type Disk, readSmallFile, removeIfThere, replaceFile } from '@stevedore/disk';

/**
 * B_logic of a store path, and what an access costs beside its bytes: measured once, in
 * well under a second on a usual disk, and kept. Whoever knows better gives both.
 */

export interface Calibration {
  /** B_logic. */
  readonly bytesPerSecond: number;
  /** A durable access of few bytes takes as long as so many bytes do. */
  readonly accessBytes: number;
}

const CALIBRATION_FILE = '.stevedore-calibration.json';
const LARGE_BYTES = 2 * 2 ** 20;
const LARGE_WRITES = 8;
const SMALL_BYTES = 1024;
const SMALL_WRITES = 16;

/** What was measured at an earlier start, or now. `clock` gives milliseconds. */
export async function calibrate(
  disk: Disk,
  dataDirectory: string,
  temporaryFile: string,
  clock: () => number,
): Promise<Calibration> {
  const kept = await load(disk, dataDirectory);
  if (kept) return kept;
  const measured = await measure(disk, temporaryFile, clock);
  await replaceFile(disk, dataDirectory, CALIBRATION_FILE, `${JSON.stringify(measured)}\n`);
  return measured;
}

async function load(disk: Disk, directory: string): Promise<Calibration | undefined> {
  const bytes = await readSmallFile(disk, join(directory, CALIBRATION_FILE), SMALL_BYTES);
  if (!bytes) return undefined;
  try {
    const { bytesPerSecond, accessBytes } = JSON.parse(bytes.toString()) as Partial<Calibration>;
    if (!(Number(bytesPerSecond) > 0) || !(Number(accessBytes) >= 0)) return undefined;
    return { bytesPerSecond: Number(bytesPerSecond), accessBytes: Number(accessBytes) };
  } catch {
    return undefined;
  }
}

async function measure(disk: Disk, path: string, clock: () => number): Promise<Calibration> {
  const file = await disk.create(path);
  try {
    let position = 0;
    const timed = async (bytes: number, writes: number): Promise<number> => {
      const chunk = Buffer.alloc(bytes, 0x5a);
      const begun = clock();
      for (let count = 0; count < writes; count += 1) {
        await file.writeAt([chunk], position);
        await file.sync();
        position += bytes;
      }
      // A clock that stands still, as in a test, is no reason to divide by nothing.
      return Math.max(clock() - begun, 0.001);
    };
    const smallMs = (await timed(SMALL_BYTES, SMALL_WRITES)) / SMALL_WRITES;
    const largeMs = await timed(LARGE_BYTES, LARGE_WRITES);
    const bytesPerMs = (LARGE_BYTES * LARGE_WRITES) / largeMs;
    return {
      bytesPerSecond: Math.round(bytesPerMs * 1000),
      accessBytes: Math.max(0, Math.round(smallMs * bytesPerMs) - SMALL_BYTES),
    };
  } finally {
    await file.close();
    await removeIfThere(disk, path);
  }
}
