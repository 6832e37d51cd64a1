import {
  type MigrationStatus,
  type Storage,
  startStorage,
  startTracker,
  type TierOptions,
  type Tracker,
} from '@stevedore/storage';
import { serve } from '../harness/serve.js';

/** A tracker and a storage with two tiers in a process of their own. */

export interface StartArgument {
  readonly directory: string;
  readonly tiers: TierOptions;
}

export type StorageHandlers = {
  /** Answers with the address of the tracker. */
  readonly start: (argument: StartArgument) => Promise<string>;
  readonly status: (none: undefined) => MigrationStatus;
};

let tracker: Tracker | undefined;
let storage: Storage | undefined;

async function start({ directory, tiers }: StartArgument): Promise<string> {
  const onError = (error: Error) => console.error(`storage: ${error.message}`);
  tracker = await startTracker({ port: 0, reservedSpaceMegabytes: 64, onError });
  const address = `127.0.0.1:${tracker.port}`;
  storage = await startStorage({
    port: 0,
    storePaths: [directory],
    trackers: [address],
    cacheBytes: 0,
    tiers,
    onError,
  });
  await storage.active();
  return address;
}

function status(): MigrationStatus {
  const now = storage?.migrationStatus();
  if (!now) throw new Error('the storage has no tiers');
  return now;
}

async function close(): Promise<void> {
  await storage?.close();
  await tracker?.close();
}

serve({ start, status } satisfies StorageHandlers, close);
