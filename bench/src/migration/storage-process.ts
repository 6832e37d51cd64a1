import {
  type MigrationStatus,
  type Storage,
  startStorage,
  startTracker,
  type TierOptions,
  type Tracker,
} from '@stevedore/storage';
import { serve } from '../harness/serve.js';
import { ACCESS_MS, BYTES_PER_MS, SlowArm } from './slow-arm.js';

/** A storage with two tiers in a process of its own, and a tracker if none is given. */

export interface StartArgument {
  readonly directory: string;
  readonly tiers: TierOptions;
  /** Default: one of its own in this process. */
  readonly tracker?: string;
  readonly group?: string;
  /** Its disk is that of slow-arm.ts. */
  readonly isSlowed?: boolean;
}

export type StorageHandlers = {
  /** Answers with the address of the tracker. */
  readonly start: (argument: StartArgument) => Promise<string>;
  readonly status: (none: undefined) => MigrationStatus;
};

const arm = new SlowArm();
const SLOWED: TierOptions = {
  // B_logic as the model has it; the disk below is another one.
  bytesPerSecond: BYTES_PER_MS * 1000,
  accessBytes: ACCESS_MS * BYTES_PER_MS,
  slowed: (disk, isHere) => arm.over(disk, isHere),
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
    tiers: argument.isSlowed ? { ...tiers, ...SLOWED } : tiers,
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
