import { type Storage, startStorage } from '@stevedore/node';
import type { TierOptions } from '@stevedore/tiering';
import type { MigrationStatus } from '@stevedore/tiering/control';
import { startTracker, type Tracker } from '@stevedore/tracker';
import { serve } from '../harness/serve.js';

/** A storage with a metadata tier in a process of its own, and a tracker if none is given. */

export interface StartArgument {
  readonly directory: string;
  readonly tiers: TierOptions;
  /** Default: one of its own in this process. */
  readonly tracker?: string;
  readonly group?: string;
}

export type StorageHandlers = {
  /** Answers with the address of the tracker. */
  readonly start: (argument: StartArgument) => Promise<string>;
  readonly status: () => MigrationStatus;
};

let tracker: Tracker | undefined;
let storage: Storage | undefined;

async function start(argument: StartArgument): Promise<string> {
  const { directory, tiers } = argument;
  const onError = (error: Error) => console.error(`storage: ${error.message}`);
  if (argument.tracker === undefined) {
    tracker = await startTracker({ port: 0, reservedSpaceMegabytes: 64, onError });
  }
  const address = argument.tracker ?? `127.0.0.1:${tracker!.port}`;
  storage = await startStorage({
    port: 0,
    storePaths: [directory],
    trackers: [address],
    group: argument.group ?? 'group1',
    cacheBytes: 0,
    tiers,
    onError,
  });
  await storage.active();
  return address;
}

function status(): MigrationStatus {
  const now = storage?.migrationStatus();
  if (!now) throw new Error('the storage has no metadata tier');
  return now;
}

async function close(): Promise<void> {
  await storage?.close();
  await tracker?.close();
}

serve({ start, status } satisfies StorageHandlers, close);
