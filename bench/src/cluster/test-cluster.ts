import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { tmpdir } from 'node:os';
import { join as joinPath } from 'node:path';
import { decoratedDisk, decoratedFile, localDisk } from '@stevedore/disk';
import { type Storage, startStorage } from '@stevedore/node';
import {
  addressText,
  type IpWidth,
  isGroupName,
  join,
  reportDiskUsage,
  StorageStatus,
  syncReport,
} from '@stevedore/protocol';
import { startTracker, type Tracker } from '@stevedore/tracker';
import { makeAddress, Peer, PROTOCOL_VERSION } from '@stevedore/wire';
import { FaultyServer } from './faults.js';

/**
 * A FastDFS cluster within the process, for tests of programs that use one: a real tracker and real
 * storages, each behind a proxy that can misbehave. The storages share one directory, as if
 * replication took no time, and sync nothing. They do not join by themselves: the cluster reports
 * the proxies to the tracker, as storages that have every file.
 */

export interface TestClusterOptions {
  /** Storages, all of one group, 1 to 16, at 127.0.0.1, 127.0.0.2 and so on. Default 1. */
  readonly storages?: number;
  /** Default `group1`. */
  readonly group?: string;
  /** Address to listen on, of the first storage. Default 127.0.0.1. */
  readonly host?: string;
  /** Width of addresses in replies. Default narrow, for an IPv6 host wide. */
  readonly addressWidth?: IpWidth;
}

const FIRST_STORAGE_ID = 100_001;
const MAX_STORAGES = 16;
const MEGABYTES = 2 ** 30;
const LATEST_SECONDS = 2 ** 31 - 1;
const LONGEST_MS = 2 ** 31 - 1;

const unsynced = {
  ...decoratedDisk(localDisk, (file) => decoratedFile(file, { sync: async () => {} })),
  syncDirectory: async () => {},
};

export class TestCluster implements AsyncDisposable {
  readonly tracker: FaultyServer;
  readonly storages: readonly FaultyServer[];
  readonly #directory: string;
  readonly #daemons: readonly { close(): Promise<void> | void }[];

  constructor(
    tracker: FaultyServer,
    storages: readonly FaultyServer[],
    directory: string,
    daemons: readonly { close(): Promise<void> | void }[],
  ) {
    this.tracker = tracker;
    this.storages = storages;
    this.#directory = directory;
    this.#daemons = daemons;
  }

  /** For the option `trackers` of a client. */
  get trackers(): readonly string[] {
    return [this.tracker.address];
  }

  /** Connections that are open now, to tracker and storages. */
  get connections(): number {
    return this.#servers.reduce((sum, server) => sum + server.connections, 0);
  }

  /** The last parts of the names of all stored files. */
  async names(): Promise<string[]> {
    const names = await readdir(joinPath(this.#directory, 'shared', '00'));
    return names.filter((name) => !name.endsWith('-m'));
  }

  /** Makes every server behave again. */
  behave(): void {
    for (const server of this.#servers) server.behave();
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()));
    for (const daemon of this.#daemons) await daemon.close();
    await rm(this.#directory, { recursive: true, force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  get #servers(): FaultyServer[] {
    return [this.tracker, ...this.storages];
  }
}

export async function startTestCluster(options: TestClusterOptions = {}): Promise<TestCluster> {
  const { storages: count = 1, group = 'group1', host = '127.0.0.1' } = options;
  const addressWidth = options.addressWidth ?? (isIPv6(host) ? 'wide' : 'narrow');
  if (!Number.isInteger(count) || count < 1 || count > MAX_STORAGES) {
    throw new RangeError(`storages must be 1 to ${MAX_STORAGES}, not ${count}`);
  }
  if (!isGroupName(group)) throw new RangeError(`group "${group}"`);
  const directory = await mkdtemp(joinPath(tmpdir(), 'stevedore-cluster-'));
  const closing: { close(): Promise<void> | void }[] = [];
  try {
    await mkdir(joinPath(directory, 'shared', '00'), { recursive: true });
    const storages: FaultyServer[] = [];
    for (let index = 0; index < count; index++) {
      const daemon = await storageOf(directory, group, index);
      closing.unshift(daemon);
      const at = isIPv6(host) || index === 0 ? host : `127.0.0.${index + 1}`;
      const proxy = await FaultyServer.before(daemon, at, 0);
      closing.unshift(proxy);
      storages.push(proxy);
    }
    const members = storages.map(({ address, port }, index) => {
      const id = String(FIRST_STORAGE_ID + index);
      return { id, address, port, host: address.slice(0, -String(port).length - 1) };
    });
    const storageIds = members.map(({ id, address }) => `${id} ${group} ${address}`);
    const tracker = await startTracker({
      ...{ host, port: 0, addressWidth, storageIds, reservedSpaceMegabytes: 0 },
      checkActiveIntervalMs: 86_400_000,
    });
    closing.unshift(tracker);
    for (const { id, port, host: at } of members) {
      const peer = await Peer.open({
        ...{ address: addressOf(tracker), localAddress: at.replace(/[[\]]/g, '') },
        timeoutMs: LONGEST_MS,
      });
      closing.unshift(peer);
      const ids = members.map((each) => each.id);
      await report(peer, group, port, id, ids);
    }
    const proxy = await FaultyServer.before(tracker, host, 0);
    return new TestCluster(proxy, storages, directory, closing);
  } catch (error) {
    for (const each of closing) await each.close();
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

async function storageOf(directory: string, group: string, index: number): Promise<Storage> {
  const storePath = joinPath(directory, String(index));
  await mkdir(joinPath(storePath, 'data'), { recursive: true });
  await symlink(joinPath(directory, 'shared'), joinPath(storePath, 'data', '00'), 'junction');
  return startStorage({
    ...{ group, port: 0, storePaths: [storePath], address: `127.0.0.${index + 1}` },
    ...{ subdirectoriesPerPath: 1, maxIdleFiles: 0, cacheBytes: 0, disk: unsynced },
  });
}

/** Reports a storage to the tracker as one that has the files of all. */
async function report(
  tracker: Peer,
  group: string,
  port: number,
  storageId: string,
  ids: readonly string[],
): Promise<void> {
  const now = Math.floor(Date.now() / 1000);
  const trackerText = addressText(tracker.remoteAddress, port);
  await tracker.ask(join, {
    ...{ group, port, storageId, initial: false, status: StorageStatus.online },
    ...{ storePathCount: 1, subdirectoriesPerPath: 1, uploadPriority: 10 },
    ...{ joinedAtSeconds: now, startedAtSeconds: now, version: PROTOCOL_VERSION },
    ...{ trackers: [trackerText], trackerAddress: tracker.remoteAddress },
  });
  await tracker.ask(reportDiskUsage, [{ totalMegabytes: MEGABYTES, freeMegabytes: MEGABYTES }]);
  const others = ids.filter((id) => id !== storageId);
  if (others.length === 0) return;
  await tracker.ask(
    syncReport,
    others.map((sourceId) => ({ sourceId, seconds: LATEST_SECONDS })),
  );
}

function addressOf({ host, port }: Tracker) {
  const address = makeAddress(host, port);
  if (address) return address;
  throw new RangeError(`host "${host}"`);
}
