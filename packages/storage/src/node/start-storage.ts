import type { MigrationStatus } from '../migration/status.js';
import type { Tiering } from '../migration/tiering.js';
import { hasRecords } from '../storage/layout.js';
import type { StorageOptions, StorageSettings } from '../storage/options.js';
import { type Storage, startStorage as startDaemon } from '../storage/storage.js';
import type { TierOptions } from '../tiers/tier-options.js';

/** A storage daemon, and its metadata tiers where it has some: a plain one loads none of their code. */

export interface NodeStorageOptions extends StorageOptions {
  /** Small files as rows beside their metadata, and what moves them. */
  readonly tiers?: TierOptions;
}

export interface NodeStorage extends Storage {
  /** What migration is doing; undefined where no small file is a row. */
  migrationStatus(): MigrationStatus | undefined;
}

/**
 * Starts a storage; resolves when it listens, whether or not a tracker is there
 * (see `active`). Rejects with StartError or OptionError.
 */
export async function startStorage({
  tiers = {},
  ...options
}: NodeStorageOptions): Promise<NodeStorage> {
  let tiering: Tiering | undefined;
  const storage = await startDaemon(options, async (settings) => {
    tiering = await openTiering(settings, tiers);
    return tiering;
  });
  return { ...storage, migrationStatus: () => tiering?.status() };
}

/** Undefined if the tiers are off and no earlier start has left records. */
async function openTiering(
  settings: StorageSettings,
  tiers: TierOptions,
): Promise<Tiering | undefined> {
  const { disk, storePaths } = settings;
  const have = await Promise.all(storePaths.map((path) => hasRecords(disk, path)));
  if (!tiers.enabled && !have.includes(true)) return undefined;
  const { Tiering } = await import('../migration/tiering.js');
  return Tiering.open(settings, tiers);
}
