import { ProtocolError } from '../bytes.js';
import { GROUP_WIDE_BYTES, IP_BYTES, VERSION_BYTES } from '../constants.js';
import {
  address,
  type BodyOf,
  type Codec,
  type Field,
  flag,
  i64,
  type Layout,
  list,
  record,
  text,
  u8,
} from '../layout.js';
import { command, groupOnly, nothing } from './shared.js';
import { statistics, storageId } from './storage-tracker.js';
import { groupAndMaybeId } from './tracker-admin.js';

/**
 * What a tracker reports about its groups and their storages. Records are written in the layout of
 * servers from 6.15 on; earlier layouts are also read, and told apart by their length.
 */

const groupRecord = record({
  name: text(GROUP_WIDE_BYTES),
  totalMegabytes: i64,
  freeMegabytes: i64,
  reservedMegabytes: i64,
  trunkFreeMegabytes: i64,
  storageCount: i64,
  /** -1 when the servers of the group use different ports. */
  storagePort: i64,
  readableCount: i64,
  writableCount: i64,
  currentWriteServer: i64,
  storePathCount: i64,
  subdirectoriesPerPath: i64,
  /** -1 if the cluster does not use stock trunk files. */
  currentTrunkFileId: i64,
});
export type GroupRecord = BodyOf<typeof groupRecord>;

/** Up to 6.13.0. The meaning of two numbers depends on the version. */
const earlierGroup = record({
  name: text(GROUP_WIDE_BYTES),
  totalMegabytes: i64,
  freeMegabytes: i64,
  trunkFreeMegabytes: i64,
  storageCount: i64,
  storagePort: i64,
  httpPortOrReadable: i64,
  activeOrWritable: i64,
  currentWriteServer: i64,
  storePathCount: i64,
  subdirectoriesPerPath: i64,
  currentTrunkFileId: i64,
});

const groups = list(groupRecord, 'a group list');
const earlierGroups = list(earlierGroup, 'a group list');

const groupRecords: Codec<readonly GroupRecord[]> = {
  ...groups,
  decode(bytes) {
    if (bytes.length % groupRecord.bytes.wide === 0) return groups.decode(bytes);
    const records = earlierGroups.decode(bytes);
    // The count of readable storages never exceeds the total; a port does. Or the port is 0, and
    // then the record would count writable but no readable storages.
    const hasHttpPorts = records.some(
      ({ httpPortOrReadable: first, activeOrWritable, storageCount }) =>
        first > storageCount || (first === 0 && activeOrWritable > 0),
    );
    return records.map(({ httpPortOrReadable, activeOrWritable, ...group }) => ({
      ...group,
      reservedMegabytes: 0,
      readableCount: hasHttpPorts ? activeOrWritable : httpPortOrReadable,
      writableCount: activeOrWritable,
    }));
  },
};

export const listAllGroups = command('LIST_ALL_GROUPS', 91, nothing, groupRecords);

/** The reply has one record. */
export const listOneGroup = command('LIST_ONE_GROUP', 90, groupOnly, groupRecords);

const head = { status: u8 };
/** 4 reads, 2 writes, 6 both, 0 neither. */
const mode = { readWriteMode: u8 };
const room = {
  joinedAtSeconds: i64,
  /** 0 if the server is not connected. */
  startedAtSeconds: i64,
  totalMegabytes: i64,
  freeMegabytes: i64,
};
const reserve = { reservedMegabytes: i64 };
const paths = {
  uploadPriority: i64,
  storePathCount: i64,
  subdirectoriesPerPath: i64,
  currentWritePath: i64,
  storagePort: i64,
};
const end = { statistics, isTrunkServer: flag };

const storageRecord = record({
  ...head,
  ...mode,
  id: storageId,
  address: address(),
  sourceId: storageId,
  version: text(VERSION_BYTES),
  ...room,
  ...reserve,
  ...paths,
  ...end,
});
export type StorageRecord = BodyOf<typeof storageRecord>;

/** Up to 6.12, with two fields that are ignored: domain name and HTTP port. */
function withHttp(ip: Field<string>, versionBytes: number) {
  return record({
    ...head,
    id: storageId,
    address: ip,
    domain: text(128),
    sourceId: storageId,
    version: text(versionBytes),
    ...room,
    ...paths,
    httpPort: i64,
    ...end,
  });
}

const EARLIER_STORAGES = [
  // 6.13.0: 509 bytes
  record({
    ...head,
    ...mode,
    id: storageId,
    address: text(IP_BYTES.wide),
    sourceId: storageId,
    version: text(VERSION_BYTES),
    ...room,
    ...paths,
    ...end,
  }),
  // 6.12: 644 bytes
  withHttp(text(IP_BYTES.wide), 8),
  // 6.11: 642 bytes
  withHttp(text(IP_BYTES.wide), 6),
  // Before: 612 bytes
  withHttp(text(IP_BYTES.narrow), 6),
] as readonly Layout<unknown>[] as readonly Layout<
  StorageRecord & { readonly domain?: string; readonly httpPort?: number }
>[];

/** Defaults of earlier records: readable and writable. */
const EARLIER_DEFAULTS = { readWriteMode: 6, reservedMegabytes: 0 };

const storages = list(storageRecord, 'a storage list');

const storageRecords: Codec<readonly StorageRecord[]> = {
  ...storages,
  decode(bytes) {
    const { narrow, wide } = storageRecord.bytes;
    if (bytes.length % narrow === 0 || bytes.length % wide === 0) return storages.decode(bytes);
    const layout = EARLIER_STORAGES.find((each) => bytes.length % each.bytes.wide === 0);
    if (!layout) throw new ProtocolError(`a storage list of ${bytes.length} bytes`);
    return list(layout, 'a storage list')
      .decode(bytes)
      .map(({ domain: _, httpPort: __, ...storage }) => ({ ...EARLIER_DEFAULTS, ...storage }));
  },
};

/** An empty id lists the whole group. */
export const listStorage = command('LIST_STORAGE', 92, groupAndMaybeId, storageRecords);
