import {
  type Storage as Daemon,
  type StorageOptions as DaemonOptions,
  hasRecords,
  startStorage as startDaemon,
} from '@stevedore/storage';
import type { MigrationStatus, Tiering, TierOptions } from '@stevedore/tiering';

/**
 * A storage daemon, with metadata tiers if enabled; a plain one loads none of their code. The
 * embedded pair is `@stevedore/node/embedded`.
 */

export interface StorageOptions extends DaemonOptions {
  /** Small files as rows beside their metadata, and their migration. */
  readonly tiers?: TierOptions;
  /** Called once the options are valid, before anything touches the store paths. */
  readonly beforeOpen?: (storePaths: readonly string[]) => Promise<void>;
}

export interface Storage extends Daemon {
  /** Status of the migration; undefined if no small file is stored as a row. */
  migrationStatus(): MigrationStatus | undefined;
}

/**
 * Starts a storage. Resolves when it listens, even without a tracker (see `active`). Rejects with
 * StartError or OptionError.
 */
export async function startStorage({
  tiers = {},
  beforeOpen,
  ...options
}: StorageOptions): Promise<Storage> {
  let tiering: Tiering | undefined;
  const storage = await startDaemon(options, async (settings) => {
    await beforeOpen?.(settings.storePaths);
    const { disk, storePaths } = settings;
    const have = await Promise.all(storePaths.map((path) => hasRecords(disk, path)));
    // Undefined if the tiers are off and no earlier run left records.
    if (!tiers.enabled && !have.includes(true)) return undefined;
    const { Tiering } = await import('@stevedore/tiering');
    tiering = await Tiering.open(settings, tiers);
    return tiering;
  });
  return { ...storage, migrationStatus: () => tiering?.status() };
}
