import { join } from 'node:path';
import type { Costs } from '@stevedore/balance';
import {
  type Disk,
  type DiskFile,
  readSmallFile,
  removeIfThere,
  replaceFile,
} from '@stevedore/disk';

/**
 * What accesses cost on a store path's disk: measured once, at the first start (well under a second
 * on a usual disk), and written down. A bandwidth that an operator gives takes the place of the
 * measured one.
 */

const CALIBRATION_FILE = '.stevedore-calibration.json';
const MEASURED_FILES = ['.stevedore-calibrating', '.stevedore-calibrating-2'] as const;
const LARGE_BYTES = 2 * 2 ** 20;
const LARGE_COUNT = 8;
const SMALL_BYTES = 1024;
const SMALL_COUNT = 16;

/** `givenBytesPerSecond`: 0 for none. */
export async function openCosts(
  disk: Disk,
  dataDirectory: string,
  clock: () => number,
  givenBytesPerSecond: number,
): Promise<Costs> {
  const kept = await load(disk, dataDirectory);
  const costs = kept ?? (await measure(disk, dataDirectory, clock));
  if (!kept) await replaceFile(disk, dataDirectory, CALIBRATION_FILE, `${JSON.stringify(costs)}\n`);
  return givenBytesPerSecond === 0 ? costs : { ...costs, bytesPerSecond: givenBytesPerSecond };
}

async function load(disk: Disk, directory: string): Promise<Costs | undefined> {
  const bytes = await readSmallFile(disk, join(directory, CALIBRATION_FILE), SMALL_BYTES);
  if (!bytes) return undefined;
  try {
    const kept = JSON.parse(bytes.toString()) as Partial<Record<keyof Costs, unknown>>;
    const { bytesPerSecond, readMs, writeMs } = kept;
    const all = { bytesPerSecond, readMs, writeMs };
    const isWhole = Object.values(all).every((value) => typeof value === 'number' && value >= 0);
    return isWhole && bytesPerSecond !== 0 ? (all as Costs) : undefined;
  } catch {
    return undefined;
  }
}

async function measure(disk: Disk, directory: string, clock: () => number): Promise<Costs> {
  const paths = MEASURED_FILES.map((name) => join(directory, name));
  const files: DiskFile[] = [];
  try {
    for (const path of paths) files.push(await disk.create(path));
    return await measureIn(files, clock);
  } finally {
    for (const file of files) await file.close();
    for (const path of paths) await removeIfThere(disk, path);
  }
}

async function measureIn(files: readonly DiskFile[], clock: () => number): Promise<Costs> {
  const [large] = files as [DiskFile];
  /** In ascending order; guards against a clock that stands still. */
  const timed = async (
    count: number,
    access: (turn: number) => Promise<unknown>,
  ): Promise<readonly number[]> => {
    const times: number[] = [];
    for (let turn = 0; turn < count; turn += 1) {
      const begun = clock();
      await access(turn);
      times.push(Math.max(clock() - begun, 0.001));
    }
    return times.sort((a, b) => a - b);
  };
  const append = async (file: DiskFile, bytes: number, turn: number): Promise<void> => {
    await file.writeAt([Buffer.alloc(bytes, 0x5a)], turn * bytes);
    await file.sync();
  };
  const largeMs = await timed(LARGE_COUNT, (turn) => append(large, LARGE_BYTES, turn));
  // As a change of a small file is: a row here, and a line of the log there.
  const writeMs = await timed(SMALL_COUNT, (turn) =>
    append(files[turn % files.length]!, SMALL_BYTES, turn),
  );
  const readMs = await timed(SMALL_COUNT, (turn) => {
    const position = ((turn * 5) % LARGE_COUNT) * LARGE_BYTES;
    return large.readAt(Buffer.allocUnsafe(SMALL_BYTES), position);
  });
  return {
    // The maximum: whatever else the machine does meanwhile must not make its disk slow for good.
    bytesPerSecond: Math.round((LARGE_BYTES / largeMs[0]!) * 1000),
    readMs: readMs[SMALL_COUNT / 2]!,
    writeMs: writeMs[SMALL_COUNT / 2]!,
  };
}
