import { join, sep } from 'node:path';
import { fileThreshold } from '@stevedore/balance';
import { type Disk, localDisk } from '@stevedore/disk';
import type { Environment } from '../environment.js';
import { nowSeconds } from '../environment.js';
import { StartError } from '../errors.js';
import type { Guests } from '../guests/guests.js';
import { DataFiles } from '../io-tier/data-files.js';
import type { KnownServers } from '../io-tier/known-servers.js';
import { dataDirectory } from '../storage/layout.js';
import { RECORDS_FILE } from './constants.js';
import type { MoveStep } from './move.js';
import { Records } from './records.js';
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
  /** A data file was cut and may be small enough for a row now. */
  onCut(tier: Tier, name: string, size: number): void;
  /** The bytes of this path lie elsewhere now. */
  onMoved(path: string): void;
  onError?(error: Error): void;
  /** For tests, which end the process there. */
  onStep?(step: MoveStep, name: string): void;
}

export interface OpenedTiers {
  readonly disk: TieredDisk;
  readonly tiers: readonly Tier[];
  /** Th_global. */
  thresholdBytes: number;
  close(): Promise<void>;
  /** As if the process had been killed. */
  abandon(): void;
}

export interface TierPlaces {
  readonly disk: Disk;
  readonly environment: Environment;
  readonly storePaths: readonly string[];
  /** The I/O servers; undefined: files never go there. */
  readonly servers?: KnownServers;
  /** Other metadata servers; undefined: they are given nothing. */
  readonly guests?: Guests | undefined;
}

/** Undefined if the tiers are off and no record is there. */
export async function openTiers(
  places: TierPlaces,
  settings: TierSettings,
  events: TierEvents,
): Promise<OpenedTiers | undefined> {
  const { disk, environment, storePaths } = places;
  const paths: string[] = [];
  for (const path of storePaths) {
    const there = await disk.exists(join(dataDirectory(path), RECORDS_FILE));
    if (settings.enabled || there) paths.push(path);
  }
  if (paths.length === 0) return undefined;
  const tiers: Tier[] = [];
  try {
    for (const path of paths) tiers.push(await openTier(path, places, settings, events));
  } catch (error) {
    for (const { records } of tiers) await records.close();
    throw error;
  }
  const opened: OpenedTiers = {
    disk: new TieredDisk({
      disk,
      tiers,
      thresholdBytes: () => (settings.enabled ? opened.thresholdBytes : undefined),
      fileThresholdBytes: (moves) =>
        fileThreshold(opened.thresholdBytes, moves, settings.parameters),
      nowSeconds: () => nowSeconds(environment),
      onAccess: events.onAccess,
      onCut: events.onCut,
    }),
    tiers,
    thresholdBytes: settings.thresholdBytes,
    close: async () => {
      for (const { dataFiles } of tiers) await dataFiles?.close();
      for (const { records } of tiers) await records.close();
    },
    abandon: () => {
      for (const { records, dataFiles } of tiers) {
        void dataFiles?.close();
        records.abandon();
      }
    },
  };
  return opened;
}

async function openTier(
  path: string,
  { disk, environment, servers, guests }: TierPlaces,
  settings: TierSettings,
  events: TierEvents,
): Promise<Tier> {
  const data = dataDirectory(path);
  try {
    await disk.makeDirectory(data);
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
  const records = Records.open(join(data, RECORDS_FILE));
  try {
    await disk.syncDirectory(data);
    const onError = (error: Error): void => events.onError?.(error);
    servers?.remember(records.ioServers());
    const tier = new Tier({
      disk,
      path,
      data: data + sep,
      records,
      preMigrationShare: settings.preMigrationShare,
      dataFiles: servers && new DataFiles({ records, servers, environment, settings, onError }),
      guests,
      onStep: (step, name) => events.onStep?.(step, name),
      onMoved: events.onMoved,
    });
    await tier.recover();
    return tier;
  } catch (error) {
    records.abandon();
    throw error;
  }
}
