import { join } from 'node:path';
import { type Access, type Costs, costOf, learnedCosts } from '@stevedore/balance';
import { type Disk, readSmallFile, removeIfThere, replaceFile } from '@stevedore/disk';
import type { DiskMeter } from './disk-meter.js';

/**
 * Costs of reads and of synced writes on a store path's disk: measured at the first start (well
 * under a second on a usual disk), then learned from use, and saved when the storage stops. Values
 * that an operator gives are not learned.
 */

const CALIBRATION_FILE = '.stevedore-calibration.json';
const MEASURED_FILE = '.stevedore-calibrating';
const LARGE_BYTES = 2 * 2 ** 20;
const LARGE_COUNT = 8;
const SMALL_BYTES = 1024;
const SMALL_COUNT = 16;

export class DiskCosts {
  #costs: Costs;
  readonly #meter: DiskMeter | undefined;
  readonly #keep: (costs: Costs) => Promise<void>;

  /** `meter` is undefined if the costs were given. */
  constructor(
    costs: Costs,
    meter?: DiskMeter,
    keep: (costs: Costs) => Promise<void> = async () => {},
  ) {
    this.#costs = costs;
    this.#meter = meter;
    this.#keep = keep;
  }

  of(access: Access, bytes: number): number {
    return costOf(this.#costs, access, bytes);
  }

  /** B_logic. */
  get bytesPerSecond(): number {
    return this.#costs.bytesPerSecond;
  }

  /** An interval has ended. */
  learn(): void {
    if (this.#meter) this.#costs = learnedCosts(this.#costs, this.#meter.endInterval());
  }

  async close(): Promise<void> {
    // Costs that were not saved are measured again.
    await this.#keep(this.#costs).catch(() => {});
  }
}

/** Starts from saved costs, or measures them. */
export async function openCosts(
  disk: Disk,
  dataDirectory: string,
  clock: () => number,
  meter: DiskMeter,
): Promise<DiskCosts> {
  const keep = (costs: Costs): Promise<void> =>
    replaceFile(disk, dataDirectory, CALIBRATION_FILE, `${JSON.stringify(costs)}\n`);
  const kept = await load(disk, dataDirectory);
  const costs = kept ?? (await measure(disk, join(dataDirectory, MEASURED_FILE), clock));
  if (!kept) await keep(costs);
  return new DiskCosts(costs, meter, keep);
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
    /** Mean of one; guards against a clock that stands still. */
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
