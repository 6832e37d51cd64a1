import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join as joinPath } from 'node:path';
import { type Storage, startStorage } from '@stevedore/node';
import { addressText, join, reportDiskUsage, StorageStatus, syncReport } from '@stevedore/protocol';
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
}

const GROUP = 'group1';

const FIRST_STORAGE_ID = 100_001;
const MEGABYTES = 2 ** 30;
const LATEST_SECONDS = 2 ** 31 - 1;
const LONGEST_MS = 2 ** 31 - 1;

export type TestCluster = Awaited<ReturnType<typeof startTestCluster>>;

export async function startTestCluster(options: TestClusterOptions = {}) {
  const { storages: count = 1 } = options;
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
      const daemon = await storageOf(directory, index);
      closing.unshift(daemon);
      const proxy = await FaultyServer.before(daemon, hostOf(index), 0);
      closing.unshift(proxy);
      storages.push(proxy);
    }
    const members = storages.map(({ address, port }, index) => {
      return { id: String(FIRST_STORAGE_ID + index), address, port, host: hostOf(index) };
    });
    const daemon = await startTracker({
      ...{ host: hostOf(0), port: 0, addressWidth: 'narrow', reservedSpaceMegabytes: 0 },
      storageIds: members.map(({ id, address }) => `${id} ${GROUP} ${address}`),
      checkActiveIntervalMs: 86_400_000,
    });
    closing.unshift(daemon);
    for (const { id, port, host } of members) {
      const own = { address: addressOf(daemon), localAddress: host };
      const peer = await Peer.open({ ...own, timeoutMs: LONGEST_MS });
      closing.unshift(peer);
      const ids = members.map((each) => each.id);
      await report(peer, { group: GROUP, port, storageId: id }, ids);
    }
    const tracker = await FaultyServer.before(daemon, hostOf(0), 0);
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
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const hostOf = (index: number): string => `127.0.0.${index + 1}`;

async function storageOf(directory: string, index: number): Promise<Storage> {
  const storePath = joinPath(directory, String(index));
  await mkdir(joinPath(storePath, 'data'), { recursive: true });
  await symlink(joinPath(directory, 'shared'), joinPath(storePath, 'data', '00'), 'junction');
  return startStorage({
    ...{ group: GROUP, port: 0, storePaths: [storePath], address: hostOf(index) },
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
