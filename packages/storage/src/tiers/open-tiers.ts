import { realpath } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { fileThreshold } from '@stevedore/balance';
import { type Disk, localDisk } from '@stevedore/disk';
import { StartError } from '@stevedore/wire';
import { type Environment, nowSeconds } from '../environment.js';
import { dataDirectory, hasRecords, RECORDS_FILE } from '../storage/layout.js';
import type { AwayFiles } from './away-files.js';
import { Place } from './constants.js';
import { Records } from './records.js';
import { SliceRows } from './slice-rows.js';
import { Tier } from './tier.js';
import type { TierSettings } from './tier-options.js';
import { TieredDisk } from './tiered-disk.js';

/**
 * Opens the metadata tier of every store path: where it is switched on, and where an
 * earlier start has left records, without which their files could not be read.
 */

export interface TierEvents {
  /** Bytes of a row are written; `isNew`: the row was made with them. */
  onAccess(path: string, bytes: number, size: number, isNew: boolean): void;
  /** A file was cut and may be small enough for a row now. */
  onCut(tier: Tier, name: string, size: number): void;
  /** A file has outgrown its row. */
  onGrown(tier: Tier, name: string, size: number): void;
  /** The bytes of this path lie elsewhere now. */
  onMoved(path: string): void;
}

export interface OpenedTiers {
  readonly disk: TieredDisk;
  readonly tiers: readonly Tier[];
  /** Undefined where the tier is switched off. */
  readonly sliceRows: SliceRows | undefined;
  /** Th_global. */
  thresholdBytes: number;
  /** Of its limit, what the rows of files take: those of slices make room for them. */
  readonly usedShare: number;
  close(): Promise<void>;
}

export interface TierPlaces {
  readonly disk: Disk;
  readonly environment: Environment;
  readonly storePaths: readonly string[];
  /** Undefined: no file goes to another group. */
  readonly away: AwayFiles | undefined;
  readonly onError: (error: Error) => void;
}

export async function openTiers(
  places: TierPlaces,
  settings: TierSettings,
  events: TierEvents,
): Promise<OpenedTiers> {
  const { disk, environment, storePaths, onError } = places;
  const tiers: Tier[] = [];
  try {
    for (const path of storePaths) {
      const isWanted = settings.enabled || (await hasRecords(disk, path));
      if (isWanted) tiers.push(await openTier(path, places, events));
    }
  } catch (error) {
    for (const { records } of tiers) await records.close();
    throw error;
  }
  const opened: OpenedTiers = {
    disk: new TieredDisk({
      disk,
      tiers,
      // A full tier takes no more rows.
      thresholdBytes: () =>
        settings.enabled && opened.usedShare < 1 ? opened.thresholdBytes : undefined,
      fileThresholdBytes: (moves) =>
        fileThreshold(opened.thresholdBytes, moves, settings.parameters),
      nowSeconds: () => nowSeconds(environment),
      onAccess: events.onAccess,
      onCut: events.onCut,
      onGrown: events.onGrown,
    }),
    tiers,
    sliceRows: settings.enabled
      ? new SliceRows({
          tiers,
          thresholdBytes: () => opened.thresholdBytes,
          roomBytes: settings.roomBytes * settings.parameters.usedMark,
          now: () => environment.now(),
          onError,
        })
      : undefined,
    thresholdBytes: settings.thresholdBytes,
    get usedShare() {
      const bytes = tiers.reduce((sum, { records }) => sum + records.counts(Place.row).bytes, 0);
      return bytes / settings.roomBytes;
    },
    close: async () => {
      for (const { records } of tiers) await records.close();
    },
  };
  return opened;
}

async function openTier(
  path: string,
  { disk, environment, away }: TierPlaces,
  events: TierEvents,
): Promise<Tier> {
  const data = dataDirectory(path);
  let file = join(data, RECORDS_FILE);
  try {
    await disk.makeDirectory(data);
    // It may be a link to a faster disk.
    if (await localDisk.exists(file)) file = await realpath(file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(
      'ERR_STORE_PATH',
      `The storage cannot write to ${path}: ${reason}.`,
      error,
    );
  }
  // SQLite has its own way to the disk.
  if (!(await localDisk.exists(data))) {
    throw new StartError('ERR_STORE_PATH', `The metadata tier needs ${data} on a local disk.`);
  }
  const records = Records.open(file);
  try {
    await localDisk.syncDirectory(dirname(file));
    await disk.syncDirectory(data);
    const tier = new Tier({
      disk,
      path,
      data: data + sep,
      records,
      away,
      now: () => environment.now(),
      onMoved: events.onMoved,
    });
    await tier.recover();
    return tier;
  } catch (error) {
    records.abandon();
    throw error;
  }
}
