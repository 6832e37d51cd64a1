import { FastdfsClient } from '@stevedore/fastdfs';
import { type Storage, startStorage, startTracker, type TierOptions } from '@stevedore/storage';
import { onTestFinished } from 'vitest';
import { until } from '../storage/support.js';
import { temporaryFolder } from './temporary.js';

/**
 * Metadata servers of two groups and a tracker, the first of which is overloaded until its
 * files have gone to the second.
 */

export const TIERS: TierOptions = {
  enabled: true,
  intervalMs: 20,
  bytesPerSecond: 1e9,
  movesPerSecond: 1000,
  guestGraceMs: 0,
};
/** So slow a disk is overloaded by a few requests. */
const SLOW: TierOptions = {
  ...TIERS,
  bytesPerSecond: 1000,
  accessBytes: 10,
  smallFileShare: 1,
  maxWaitMs: 60_000,
};
export const SIZE = 40;

export interface Node {
  readonly storage: Storage;
  readonly folder: string;
  readonly errors: Error[];
}

export interface NodeOptions {
  readonly folder?: string;
  readonly port?: number;
  readonly secrets?: readonly string[];
}

/** What is closed when whoever has started it is through. */
export type Owner = (close: () => Promise<void>) => void;

export async function nodeOf(
  tracker: number,
  group: string,
  tiers: TierOptions,
  { folder = temporaryFolder(), port = 0, secrets = [] }: NodeOptions = {},
  owner: Owner = onTestFinished,
): Promise<Node> {
  const errors: Error[] = [];
  const storage = await startStorage({
    port,
    group,
    storePaths: [folder],
    trackers: [`127.0.0.1:${tracker}`],
    cacheBytes: 0,
    maxIdleFiles: 0,
    tiers,
    secrets,
    onError: (error) => errors.push(error),
  });
  owner(() => storage.close());
  await storage.active();
  return { storage, folder, errors };
}

export const content = (n: number): Buffer => Buffer.alloc(SIZE, n + 1);

export interface MovedOptions {
  readonly secret?: string | undefined;
  /** Default: one of its own. */
  readonly tracker?: number | undefined;
  readonly other?: Node;
  readonly owner?: Owner;
  /** Where the storages keep their files. Default: temporary folders of the test. */
  readonly folders?: Readonly<Record<'home' | 'other', string>>;
  /** Default: appenders. */
  readonly normal?: boolean;
}

/** Files of the first group whose bytes the second one has, described as `n`: their number. */
export async function withMoved(files: number, options: MovedOptions = {}) {
  const { secret, owner = onTestFinished, normal = false } = options;
  const secrets = secret === undefined ? [] : [secret];
  const tracker = options.tracker ?? (await startedTracker(secrets, owner));
  const start = (group: string, tiers: TierOptions, folder = temporaryFolder()) =>
    nodeOf(tracker, group, tiers, { secrets, folder }, owner);
  const other = options.other ?? (await start('group2', TIERS, options.folders?.other));
  const home = await start('group1', SLOW, options.folders?.home);
  const client = new FastdfsClient({ trackers: [`127.0.0.1:${tracker}`], secret });
  owner(() => client.close());
  await until(() => home.storage.migrationStatus()!.neighbours.length === 1);
  const ids: string[] = [];
  for (let n = 0; n < files; n += 1) {
    const about = { group: 'group1', extension: 'log' };
    const id = normal
      ? await client.upload(content(n), about)
      : await client.uploadAppender(content(n), about);
    ids.push(id);
  }
  await until(async () => {
    for (const [n, id] of ids.entries()) {
      const bytes = await client.downloadBytes(id);
      if (!bytes.equals(content(n))) throw new Error(`${id} has other bytes`);
      await client.setMetadata(id, { n: String(n) });
    }
    return home.storage.migrationStatus()!.guestFiles.files === files;
  });
  return { tracker, other, home, client, ids };
}

async function startedTracker(secrets: readonly string[], owner: Owner): Promise<number> {
  const tracker = await startTracker({ port: 0, secrets });
  owner(() => tracker.close());
  return tracker.port;
}
