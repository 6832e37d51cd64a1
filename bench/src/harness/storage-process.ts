import { join } from 'node:path';
import { type Storage, startStorage } from '@stevedore/node';
import { startTracker, type Tracker } from '@stevedore/tracker';
import { serve } from './serve.js';

/** A tracker and a storage in a process of their own, on free loopback ports. */

const RESERVED_SPACE_MEGABYTES = 64;
let tracker: Tracker | undefined;
let storages: Storage[] = [];

export type StorageHandlers = {
  /** `count` storages of one group, one directory each; the result is the tracker's address. */
  readonly start: (options: {
    readonly directory: string;
    readonly count: number;
  }) => Promise<string>;
};

async function start({
  directory,
  count,
}: Parameters<StorageHandlers['start']>[0]): Promise<string> {
  const onError = (error: Error) => console.error(`storage: ${error.message}`);
  tracker = await startTracker({
    port: 0,
    reservedSpaceMegabytes: RESERVED_SPACE_MEGABYTES,
    onError,
  });
  const address = `127.0.0.1:${tracker.port}`;
  for (let index = 1; index <= count; index += 1) {
    const storage = await startStorage({
      // Members of a group have addresses of their own and one port.
      ...{ host: `127.0.0.${index}`, port: storages[0]?.port ?? 0 },
      storePaths: [join(directory, String(index))],
      trackers: [address],
      onError,
    });
    storages.push(storage);
    await storage.active();
  }
  return address;
}

async function close(): Promise<void> {
  await Promise.all(storages.map((storage) => storage.close()));
  storages = [];
  await tracker?.close();
}

serve({ start } satisfies StorageHandlers, close);
