import { heated, isWorthRow } from '@stevedore/balance';
import { isWhole } from '@stevedore/cache';
import type { SliceEntry } from '@stevedore/protocol';
import type { HotSlices } from '@stevedore/storage';
import { asError } from '@stevedore/wire';
import { LRUCache } from 'lru-cache';
import { LEAST_HEATING, Place, type SliceRecords } from './record-rows.js';
import type { Tier } from './tier.js';

/**
 * Slices that are read often, as rows beside the records of files. The trunk remains the truth: a
 * row is served only if the trunk's directory, or its list of deleted slices, shows that the slice
 * still exists. So a row that survives a crash does no harm, and any row can be removed; when space
 * is short, slices go first.
 */
export interface SliceRowsParts {
  readonly tiers: readonly Tier[];
  /** Th_global. */
  readonly thresholdBytes: () => number;
  /** Most bytes of the rows of files and slices together. */
  readonly roomBytes: number;
  readonly now: () => number;
  readonly onError: (error: Error) => void;
}

/** Slices whose reads are counted: those read last. */
const MAX_COUNTED = 50_000;
/** Per interval, so that no request waits long. */
const MAX_REMOVALS = 1000;

export class SliceRows implements HotSlices {
  readonly #parts: SliceRowsParts;
  readonly #heats = new LRUCache<string, number>({ max: MAX_COUNTED });
  #hasChanged = false;

  constructor(parts: SliceRowsParts) {
    this.#parts = parts;
  }

  /** Counts a read of the slice, or of what may be one. */
  count(trunkPath: string, offset: number): void {
    const key = keyOf(trunkPath, offset);
    this.#heats.set(key, heated(this.#heats.get(key), this.#parts.now()));
  }

  /** True if the slice is read often enough for a row. */
  isWanted(trunkPath: string, offset: number, sizeBytes: number): boolean {
    const { thresholdBytes, now } = this.#parts;
    const heat = this.#heats.get(keyOf(trunkPath, offset));
    return heat !== undefined && isWorthRow({ sizeBytes, heat }, thresholdBytes(), now());
  }

  /** The row that starts at this position, if any. */
  find(trunkPath: string, offset: number): SliceEntry | undefined {
    return this.#within(trunkPath, (slices, trunk) => slices.find.get(trunk, offset));
  }

  /** The bytes of a row; removes a damaged one. */
  read(trunkPath: string, slice: SliceEntry): Buffer | undefined {
    return this.#within(trunkPath, (slices, trunk) => {
      const row = slices.find.get(trunk, slice.offset);
      if (row?.size !== slice.size || row.crc32 !== slice.crc32) return undefined;
      const key = keyOf(trunkPath, slice.offset);
      const bytes = slices.bytes.get(trunk, slice.offset)?.bytes;
      if (!bytes || !isWhole(slice, bytes)) {
        slices.remove(trunk, slice.offset);
        throw new Error(`the row of ${key} is damaged`);
      }
      // Includes reads before the last start.
      const heat = Math.max(this.#heats.get(key) ?? row.heat, row.heat);
      this.#heats.set(key, heat);
      if (heat > row.heat + LEAST_HEATING) slices.setHeat(row, heat);
      return bytes;
    });
  }

  /** Makes a row of a slice, unless hotter content needs the space. */
  keep(trunkPath: string, slice: SliceEntry, bytes: Buffer): void {
    const heat = this.#heats.get(keyOf(trunkPath, slice.offset));
    if (heat === undefined || !this.#makeRoom(slice.size, heat)) return;
    this.#within(trunkPath, (slices, trunk) => slices.put({ ...slice, trunk, heat }, bytes));
    this.#hasChanged = true;
  }

  /** The slice was deleted; without a position, the whole trunk. */
  remove(trunkPath: string, offset?: number): void {
    const last = offset ?? Number.MAX_SAFE_INTEGER;
    this.#within(trunkPath, (slices, trunk) => slices.remove(trunk, offset ?? 0, last));
    this.#hasChanged = true;
  }

  /** Makes space for files, and records heat. */
  endInterval(): void {
    this.#makeRoom(0, Number.POSITIVE_INFINITY);
    if (!this.#hasChanged) return;
    this.#hasChanged = false;
    const { tiers, onError } = this.#parts;
    for (const { records } of tiers) {
      records.commit().catch((error: unknown) => onError(asError(error)));
    }
  }

  /** False if colder rows do not free so many bytes. */
  #makeRoom(bytes: number, heat: number): boolean {
    const { tiers, roomBytes } = this.#parts;
    let beyond = bytes - roomBytes;
    for (const { records } of tiers) {
      beyond += records.counts(Place.row).bytes + records.slices.counts.bytes;
    }
    for (let removals = 0; beyond > 0; removals += 1) {
      const coldest = tiers
        .map(({ records: { slices } }) => ({ slices, row: slices.coldest.get() }))
        .sort((a, b) => (a.row?.heat ?? heat) - (b.row?.heat ?? heat))[0];
      if (!coldest?.row || coldest.row.heat >= heat || removals === MAX_REMOVALS) return false;
      coldest.slices.remove(coldest.row.trunk, coldest.row.offset);
      beyond -= coldest.row.size;
      this.#hasChanged = true;
    }
    return true;
  }

  /** If a row fails, the trunk is read instead. */
  #within<Result>(
    trunkPath: string,
    use: (slices: SliceRecords, trunk: string) => Result,
  ): Result | undefined {
    const tier = this.#parts.tiers.find(({ data }) => trunkPath.startsWith(data));
    try {
      return tier && use(tier.records.slices, trunkPath.slice(tier.data.length));
    } catch (error) {
      this.#parts.onError(asError(error));
      return undefined;
    }
  }
}

function keyOf(trunkPath: string, offset: number): string {
  return `${trunkPath}@${offset}`;
}
