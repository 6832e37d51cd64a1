import { isIPv6 } from 'node:net';
import { type IpWidth, isGroupName } from '@stevedore/protocol';
import { MemoryNode } from './memory-node.js';
import { MemoryFiles, storageHandlers } from './memory-storage.js';
import { trackerHandlers } from './memory-tracker.js';

/**
 * A FastDFS cluster within the process, for tests of programs that use one: a
 * tracker and storages on ports of their own, their files in memory. Storages share
 * their files, as if replication took no time.
 */

export interface MemoryClusterOptions {
  /** Storages, all of one group, 1 to 16. Default 1. */
  readonly storages?: number;
  /** Default `group1`. */
  readonly group?: string;
  /** Address to listen on. Default 127.0.0.1. */
  readonly host?: string;
  /** Width of addresses in replies. Default narrow, for an IPv6 host wide. */
  readonly addressWidth?: IpWidth;
}

const FIRST_STORAGE_ID = 100_001;
const MAX_STORAGES = 16;

export class MemoryCluster implements AsyncDisposable {
  readonly files: MemoryFiles;
  readonly tracker: MemoryNode;
  readonly storages: readonly MemoryNode[];

  constructor(files: MemoryFiles, tracker: MemoryNode, storages: readonly MemoryNode[]) {
    this.files = files;
    this.tracker = tracker;
    this.storages = storages;
  }

  /** For the option `trackers` of a client. */
  get trackers(): readonly string[] {
    return [this.tracker.address];
  }

  /** Connections that are open now, to tracker and storages. */
  get connections(): number {
    return this.#nodes.reduce((sum, node) => sum + node.connections, 0);
  }

  /** Every server answers as it should again. */
  behave(): void {
    for (const node of this.#nodes) node.behave();
  }

  async close(): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  get #nodes(): MemoryNode[] {
    return [this.tracker, ...this.storages];
  }
}

export async function startMemoryCluster(
  options: MemoryClusterOptions = {},
): Promise<MemoryCluster> {
  const { storages: count = 1, group = 'group1', host = '127.0.0.1' } = options;
  const width = options.addressWidth ?? (isIPv6(host) ? 'wide' : 'narrow');
  if (!Number.isInteger(count) || count < 1 || count > MAX_STORAGES) {
    throw new RangeError(`storages must be 1 to ${MAX_STORAGES}, not ${count}`);
  }
  if (!isGroupName(group)) throw new RangeError(`group "${group}"`);
  const files = new MemoryFiles();
  const ids = Array.from({ length: count }, (_, index) => String(FIRST_STORAGE_ID + index));
  const storages: MemoryNode[] = [];
  try {
    for (const id of ids) {
      storages.push(
        await MemoryNode.listen(host, storageHandlers({ files, group, id, host, width })),
      );
    }
    const tracked = storages.map(({ port }, index) => ({ address: host, port, id: ids[index]! }));
    const handlers = trackerHandlers({ group, storages: tracked, width });
    return new MemoryCluster(files, await MemoryNode.listen(host, handlers), storages);
  } catch (error) {
    await Promise.all(storages.map((storage) => storage.close()));
    throw error;
  }
}
