import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { tmpdir } from 'node:os';
import { join as joinPath } from 'node:path';
import { type Storage, startStorage } from '@stevedore/node';
import {
  addressText,
  type IpWidth,
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
const MEGABYTES = 2 ** 30;
const LATEST_SECONDS = 2 ** 31 - 1;
const LONGEST_MS = 2 ** 31 - 1;

export type TestCluster = Awaited<ReturnType<typeof startTestCluster>>;

export async function startTestCluster(options: TestClusterOptions = {}) {
  const { storages: count = 1, group = 'group1', host = '127.0.0.1' } = options;
  const addressWidth = options.addressWidth ?? (isIPv6(host) ? 'wide' : 'narrow');
  const directory = await mkdtemp(joinPath(tmpdir(), 'stevedore-cluster-'));
  const closing: { close(): Promise<void> | void }[] = [];
  const close = async (): Promise<void> => {
    for (const each of closing.splice(0)) await each.close();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    const shared = joinPath(directory, 'shared', '00');
    await mkdir(shared, { recursive: true });
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
    const daemon = await startTracker({
      ...{ host, port: 0, addressWidth, reservedSpaceMegabytes: 0 },
      storageIds: members.map(({ id, address }) => `${id} ${group} ${address}`),
      checkActiveIntervalMs: 86_400_000,
    });
    closing.unshift(daemon);
    for (const { id, port, host: at } of members) {
      const peer = await Peer.open({
        ...{ address: addressOf(daemon), localAddress: at.replace(/[[\]]/g, '') },
        timeoutMs: LONGEST_MS,
      });
      closing.unshift(peer);
      const ids = members.map((each) => each.id);
      await report(peer, { group, port, storageId: id }, ids);
    }
    const tracker = await FaultyServer.before(daemon, host, 0);
    closing.unshift(tracker);
    const servers = [tracker, ...storages];
    return {
      tracker,
      storages: storages as readonly FaultyServer[],
      /** For the option `trackers` of a client. */
      trackers: [tracker.address] as readonly string[],
      /** Connections that are open now, to tracker and storages. */
      get connections(): number {
        return servers.reduce((sum, server) => sum + server.connections, 0);
      },
      /** The last parts of the names of all stored files. */
      async names(): Promise<string[]> {
        return (await readdir(shared)).filter((name) => !name.endsWith('-m'));
      },
      /** Makes every server behave again. */
      behave: () => servers.forEach((server) => void server.behave()),
      close,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function storageOf(directory: string, group: string, index: number): Promise<Storage> {
  const storePath = joinPath(directory, String(index));
  await mkdir(joinPath(storePath, 'data'), { recursive: true });
  await symlink(joinPath(directory, 'shared'), joinPath(storePath, 'data', '00'), 'junction');
  return startStorage({
    ...{ group, port: 0, storePaths: [storePath], address: `127.0.0.${index + 1}` },
    ...{ subdirectoriesPerPath: 1, maxIdleFiles: 0, cacheBytes: 0, durability: 'os' },
  });
}

/** Reports a storage to the tracker as one that has the files of all. */
async function report(
  tracker: Peer,
  { group, port, storageId }: { group: string; port: number; storageId: string },
  ids: readonly string[],
): Promise<void> {
  const now = Math.floor(Date.now() / 1000);
  const trackers = [addressText(tracker.remoteAddress, port)];
  await tracker.ask(join, {
    ...{ group, port, storageId, initial: false, status: StorageStatus.online },
    ...{ storePathCount: 1, subdirectoriesPerPath: 1, uploadPriority: 10 },
    ...{ joinedAtSeconds: now, startedAtSeconds: now, version: PROTOCOL_VERSION },
    ...{ trackers, trackerAddress: tracker.remoteAddress },
  });
  await tracker.ask(reportDiskUsage, [{ totalMegabytes: MEGABYTES, freeMegabytes: MEGABYTES }]);
  const others = ids.filter((id) => id !== storageId);
  if (others.length === 0) return;
  const reports = others.map((sourceId) => ({ sourceId, seconds: LATEST_SECONDS }));
  await tracker.ask(syncReport, reports);
}

function addressOf({ host, port }: Tracker) {
  const address = makeAddress(host, port);
  if (address) return address;
  throw new RangeError(`host "${host}"`);
}
