import { isIPv6 } from 'node:net';
import {
  activeTest,
  type Command,
  decodeFields,
  emptyStatistics,
  type FetchTarget,
  type FileName,
  type GroupRecord,
  type IpWidth,
  isGroupName,
  listAllGroups,
  listOneGroup,
  listStorage,
  ProtocolError,
  parseFileName,
  queryFetch,
  queryFetchAll,
  queryStore,
  queryStoreAll,
  queryStoreInGroup,
  queryStoreInGroupAll,
  queryUpdate,
  type ServerAddress,
  Status,
  type StorageRecord,
  StorageStatus,
} from '@stevedore/protocol';
import { type Handler, type Handlers, handle, MemoryNode } from './memory-node.js';
import { MemoryFiles, storageHandlers } from './memory-storage.js';

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

  /** Makes every server behave again. */
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

/** A tracker's answers about one group whose storages are all active. */

interface TrackedStorage extends ServerAddress {
  readonly id: string;
}

interface MemoryTrackerOptions {
  readonly group: string;
  readonly storages: readonly TrackedStorage[];
  readonly width: IpWidth;
}

const MEGABYTES = 1024;
const STARTED_SECONDS = 1_700_000_000;

function trackerHandlers({ group, storages, width }: MemoryTrackerOptions): Handlers {
  let turn = 0;
  const next = (): TrackedStorage => storages[turn++ % storages.length]!;
  const own = (name: string): void => {
    if (name !== group) throw new ProtocolError(`group ${name}`, Status.notFound);
  };
  const target = ({ address, port }: ServerAddress): FetchTarget => ({ group, address, port });
  const place = { storePathIndex: 0 };
  const all = { group, servers: storages.map(({ address, port }) => ({ address, port })) };
  /** The storage that the name bears, else the first. */
  const sourceOf = (file: FileName): TrackedStorage => {
    own(file.group);
    const id = parseFileName(file.group, file.name);
    if (!id) throw new ProtocolError(file.name);
    const { source } = decodeFields(id.base);
    return storages.find((each) => each.id === source) ?? storages[0]!;
  };
  const wide = <Request, Reply>(
    command: Command<Request, Reply>,
    answer: (request: Request) => Reply,
  ): [number, Handler] => handle(command, answer, (reply) => command.reply.encode(reply, width));
  return new Map<number, Handler>([
    handle(activeTest, () => undefined),
    wide(queryStore, () => ({ ...target(next()), ...place })),
    wide(queryStoreInGroup, (request) => {
      own(request.group);
      return { ...target(next()), ...place };
    }),
    wide(queryStoreAll, () => ({ ...all, ...place })),
    wide(queryStoreInGroupAll, (request) => {
      own(request.group);
      return { ...all, ...place };
    }),
    wide(queryFetch, (file) => {
      own(file.group);
      return target(next());
    }),
    wide(queryUpdate, (file) => target(sourceOf(file))),
    wide(queryFetchAll, (file) => {
      own(file.group);
      return all;
    }),
    handle(listAllGroups, () => [groupRecord(group, storages)]),
    handle(listOneGroup, (request) => {
      own(request.group);
      return [groupRecord(group, storages)];
    }),
    wide(listStorage, (request) => {
      own(request.group);
      const wanted = storages.filter(({ id }) => request.id === '' || request.id === id);
      if (wanted.length === 0) throw new ProtocolError(request.id, Status.notFound);
      return wanted.map(storageRecord);
    }),
  ]);
}

function groupRecord(name: string, storages: readonly TrackedStorage[]): GroupRecord {
  return {
    name,
    totalMegabytes: MEGABYTES,
    freeMegabytes: MEGABYTES,
    reservedMegabytes: 0,
    trunkFreeMegabytes: 0,
    storageCount: storages.length,
    storagePort: storages.length === 1 ? storages[0]!.port : -1,
    readableCount: storages.length,
    writableCount: storages.length,
    currentWriteServer: 0,
    storePathCount: 1,
    subdirectoriesPerPath: 256,
    currentTrunkFileId: -1,
  };
}

function storageRecord({ id, address, port }: TrackedStorage): StorageRecord {
  return {
    status: StorageStatus.active,
    readWriteMode: 6,
    id,
    address,
    sourceId: '',
    version: '6.16.1',
    joinedAtSeconds: STARTED_SECONDS,
    startedAtSeconds: STARTED_SECONDS,
    totalMegabytes: MEGABYTES,
    freeMegabytes: MEGABYTES,
    reservedMegabytes: 0,
    uploadPriority: 10,
    storePathCount: 1,
    subdirectoriesPerPath: 256,
    currentWritePath: 0,
    storagePort: port,
    statistics: emptyStatistics(),
    isTrunkServer: false,
  };
}
