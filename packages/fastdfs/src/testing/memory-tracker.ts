import {
  activeTest,
  type Command,
  decodeFields,
  emptyStatistics,
  type FetchTarget,
  type FileName,
  type GroupRecord,
  type IpWidth,
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
import { type Handler, type Handlers, handle } from './memory-node.js';

/** A tracker's answers about one group whose storages are all active. */

interface TrackedStorage extends ServerAddress {
  readonly id: string;
}

export interface MemoryTrackerOptions {
  readonly group: string;
  readonly storages: readonly TrackedStorage[];
  readonly width: IpWidth;
}

const MEGABYTES = 1024;
const STARTED_SECONDS = 1_700_000_000;

export function trackerHandlers({ group, storages, width }: MemoryTrackerOptions): Handlers {
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
