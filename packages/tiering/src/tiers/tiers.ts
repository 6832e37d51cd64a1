import { realpath } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { fileThreshold } from '@stevedore/balance';
import { type Disk, localDisk } from '@stevedore/disk';
import { messageOf } from '@stevedore/protocol';
import { dataDirectory, hasRecords, RECORDS_FILE } from '@stevedore/storage';
import { type Environment, StartError } from '@stevedore/wire';
import type { TierSettings } from '../tier-options.js';
import { type FileRecord, Place } from './record-rows.js';
import { Records } from './records.js';
import type { RemoteFiles } from './remote-files.js';
import { Tier } from './tier.js';

/**
 * The metadata tiers of a storage: one per store path if they are on; otherwise only where an
 * earlier start left records, without which files could not be read.
 */

export interface TierPlaces {
  readonly disk: Disk;
  readonly environment: Environment;
  readonly storePaths: readonly string[];
  /** Undefined: no file goes to another group. */
  readonly remote: RemoteFiles | undefined;
}

export class Tiers {
  readonly all: readonly Tier[];
  /** Th_global. */
  thresholdBytes: number;
  readonly #settings: TierSettings;

  private constructor(all: readonly Tier[], settings: TierSettings) {
    this.all = all;
    this.#settings = settings;
    this.thresholdBytes = settings.thresholdBytes;
  }

  static async open(places: TierPlaces, settings: TierSettings): Promise<Tiers> {
    const all: Tier[] = [];
    try {
      for (const path of places.storePaths) {
        const isWanted = settings.enabled || (await hasRecords(places.disk, path));
        if (isWanted) all.push(await openTier(path, places));
      }
    } catch (error) {
      for (const { records } of all) await records.close();
      throw error;
    }
    return new Tiers(all, settings);
  }

  /** The tier of this path, and the name in its records. */
  locate(path: string): { readonly tier: Tier; readonly name: string } | undefined {
    for (const tier of this.all) {
      if (!path.startsWith(tier.data)) continue;
      const name = path.slice(tier.data.length);
      return { tier, name: sep === '/' ? name : name.replaceAll(sep, '/') };
    }
    return undefined;
  }

  /** Where the content of this path is; undefined: on disk, if anywhere. */
  placeOf(path: string): Pick<FileRecord, 'place' | 'size'> | undefined {
    const at = this.locate(path);
    return at?.tier.records.placeOf(at.name);
  }

  /** The id of content in another group. */
  remoteIdOf(path: string): string | undefined {
    const at = this.locate(path);
    return at?.tier.records.find(at.name)?.remote;
  }

  /**
   * The largest new file that becomes a row; -1 for none, as in a full tier. While rows have space,
   * it is at least the size given: a file would cost this disk more. If the threshold is lower, the
   * row moves when it is read.
   */
  get rowLimitBytes(): number {
    const { enabled, thresholdBytes, parameters } = this.#settings;
    const { usedShare } = this;
    if (!enabled || usedShare >= 1) return -1;
    return usedShare < parameters.usedMark
      ? Math.max(thresholdBytes, this.thresholdBytes)
      : this.thresholdBytes;
  }

  /** Eq. 14: the size to which a file that has moved so often may grow. */
  changeLimitBytes(moves: number): number {
    return fileThreshold(this.thresholdBytes, moves, this.#settings.parameters);
  }

  /** Share of the space that rows use. */
  get usedShare(): number {
    const bytes = this.all.reduce((sum, { records }) => sum + records.counts(Place.row).bytes, 0);
    return bytes / this.#settings.roomBytes;
  }

  async close(): Promise<void> {
    for (const { records } of this.all) await records.close();
  }
}

async function openTier(path: string, { disk, environment, remote }: TierPlaces): Promise<Tier> {
  const data = dataDirectory(path);
  let file = join(data, RECORDS_FILE);
  try {
    await disk.makeDirectory(data);
    // It may be a link to a faster disk.
    if (await localDisk.exists(file)) file = await realpath(file);
  } catch (error) {
    const reason = messageOf(error);
    throw new StartError(
      'store_path_unusable',
      `The storage cannot write to ${path}: ${reason}.`,
      error,
    );
  }
  // SQLite accesses the disk by itself.
  if (!(await localDisk.exists(data))) {
    throw new StartError('store_path_unusable', `The metadata tier needs ${data} on a local disk.`);
  }
  const records = Records.open(file, disk);
  try {
    await localDisk.syncDirectory(dirname(file));
    await disk.syncDirectory(data);
    const now = (): number => environment.now();
    const tier = new Tier({ disk, path, data: data + sep, records, remote, now });
    await tier.recover();
    return tier;
  } catch (error) {
    await records.close();
    throw error;
  }
}
