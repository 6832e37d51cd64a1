import { type Storage, startStorage } from '@stevedore/node';
import { startTracker, type Tracker } from '@stevedore/tracker';
import { serve } from './serve.js';

/** A tracker and a storage in a process of their own, on free loopback ports. */

const RESERVED_SPACE_MEGABYTES = 64;
let tracker: Tracker | undefined;
let storage: Storage | undefined;

export type StorageHandlers = {
  /** Stores files in the directory; answers with the address of the tracker. */
  readonly start: (directory: string) => Promise<string>;
};

async function start(directory: string): Promise<string> {
  const onError = (error: Error) => console.error(`storage: ${error.message}`);
  tracker = await startTracker({
    port: 0,
    reservedSpaceMegabytes: RESERVED_SPACE_MEGABYTES,
    onError,
  });
  const address = `127.0.0.1:${tracker.port}`;
  storage = await startStorage({
    port: 0,
    storePaths: [directory],
    trackers: [address],
    onError,
  });
  await storage.active();
  return address;
}

async function close(): Promise<void> {
  await storage?.close();
  await tracker?.close();
}

serve({ start } satisfies StorageHandlers, close);
