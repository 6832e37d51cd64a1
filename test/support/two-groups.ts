import { FastdfsClient } from '@stevedore/fastdfs';
import { type Storage, startStorage } from '@stevedore/node';
import type { TierOptions } from '@stevedore/tiering';
import { startTracker } from '@stevedore/tracker';
import { onTestFinished } from 'vitest';
import { until } from './storage/support.js';
import { temporaryFolder } from './temporary.js';

/** Storages of two groups and a tracker; the rows of the first go to the second. */

const QUICK: TierOptions = {
  enabled: true,
  intervalMs: 20,
  bytesPerSecond: 1e9,
  movesPerSecond: 1000,
  graceMs: 0,
};
/** There is room for nothing: whatever became a row leaves it. */
export const LEAVING: TierOptions = { ...QUICK, parameters: { usedMark: 0 }, moveTo: 'group2' };

export const SIZE = 40;

export interface Node {
  readonly storage: Storage;
  readonly folder: string;
  readonly errors: Error[];
}

export interface NodeOptions {
  readonly folder?: string;
  readonly secrets?: readonly string[];
  readonly tiers?: TierOptions;
}

/** What is closed when whoever has started it is through. */
export type Owner = (close: () => Promise<void>) => void;

export async function nodeOf(
  tracker: number,
  group: string,
  { folder = temporaryFolder(), secrets = [], tiers = {} }: NodeOptions = {},
  owner: Owner = onTestFinished,
): Promise<Node> {
  const errors: Error[] = [];
  const storage = await startStorage({
    port: 0,
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
  readonly owner?: Owner;
  /** Where the storages keep their files. Default: temporary folders of the test. */
  readonly folders?: Readonly<Record<'home' | 'other', string>>;
  /** Default: appenders. */
  readonly normal?: boolean;
  /** Of the client. Default: as every other client. */
  readonly followMoves?: boolean;
  /** Of the second group. Default: a plain storage. */
  readonly otherTiers?: TierOptions;
}

/** Files of the first group whose bytes the second one has, described as `n`: their number. */
export async function withMoved(files: number, options: MovedOptions = {}) {
  const { secret, owner = onTestFinished, normal = false, folders, otherTiers = {} } = options;
  const { followMoves = false } = options;
  const secrets = secret === undefined ? [] : [secret];
  const running = await startTracker({ port: 0, secrets });
  owner(() => running.close());
  const tracker = running.port;
  const start = (group: string, tiers: TierOptions, folder = temporaryFolder()) =>
    nodeOf(tracker, group, { tiers, secrets, folder }, owner);
  const other = await start('group2', otherTiers, folders?.other);
  const home = await start('group1', LEAVING, folders?.home);
  const trackers = [`127.0.0.1:${tracker}`];
  const client = new FastdfsClient({ trackers, secret, followMoves });
  owner(() => client.close());
  const ids: string[] = [];
  for (let n = 0; n < files; n += 1) {
    const about = { group: 'group1', extension: 'log' };
    const id = normal
      ? await client.upload(content(n), about)
      : await client.uploadAppender(content(n), about);
    await client.setMetadata(id, { n: String(n) });
    ids.push(id);
  }
  await until(() => home.storage.migrationStatus()!.remote.files === files);
  return { tracker, other, home, client, ids };
}
