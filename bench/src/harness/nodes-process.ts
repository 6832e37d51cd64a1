import { join } from 'node:path';
import { type Storage, type StorageOptions, startStorage } from '@stevedore/node';
import { startTracker, type Tracker } from '@stevedore/tracker';

/** Trackers and storages, as many as are asked for, on free loopback ports of this process. */

const RESERVED = { reservedSpaceMegabytes: 64 };
const trackers: Tracker[] = [];
const storages: Storage[] = [];

function onError(error: Error): void {
  console.error(`node: ${error.message}`);
}

/** Answers with its address. */
export async function tracker(host = '127.0.0.1'): Promise<string> {
  const started = await startTracker({ port: 0, host, ...RESERVED, onError });
  trackers.push(started);
  return `${host}:${started.port}`;
}

/** Answers with its port, once a tracker counts it as active. */
export async function storage(options: Omit<StorageOptions, 'disk' | 'onError'>): Promise<number> {
  const started = await startStorage({ port: 0, ...options, onError });
  storages.push(started);
  if (options.trackers) await started.active();
  return started.port;
}

/** A tracker and so many storages of one group, a directory each; the tracker's address. */
export async function group(
  directory: string,
  count = 1,
  durability: 'sync' | 'os' = 'sync',
): Promise<string> {
  const address = await tracker();
  let port = 0;
  for (let index = 1; index <= count; index += 1) {
    // Members of a group have addresses of their own and one port.
    const own = { host: `127.0.0.${index}`, port, storePaths: [join(directory, String(index))] };
    port = await storage({ ...own, durability, trackers: [address] });
  }
  return address;
}

export async function close(): Promise<void> {
  await Promise.all(storages.splice(0).map((each) => each.close()));
  await Promise.all(trackers.splice(0).map((each) => each.close()));
}
