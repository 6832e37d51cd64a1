import { ProtocolError } from '../bytes.js';
import { type BodyOf, type Codec, i32, i64, list, only, record, size, u8 } from '../layout.js';
import { command, group, latin1, nothing, optional } from './shared.js';
import { changeList, serverBrief, storageId, wideAddress } from './storage-tracker.js';

/** How storages and trackers agree on who syncs from whom. */

const syncSource = record(
  {
    sourceId: storageId,
    /** Copies files older than this, unix seconds. */
    untilSeconds: i64,
  },
  'a sync source',
);
export type SyncSource = BodyOf<typeof syncSource>;

/** Empty if there is no storage to copy from. */
const maybeSyncSource = optional(syncSource);

/** A new storage asks whom to copy from. Needs a join. */
export const syncDestReq = command('STORAGE_SYNC_DEST_REQ', 87, nothing, maybeSyncSource);

/** A storage asks whom it currently copies from. Needs a join. */
export const syncDestQuery = command('STORAGE_SYNC_DEST_QUERY', 79, nothing, maybeSyncSource);

/**
 * A storage reports whom it copies from; an empty id means none. Needs a
 * join.
 */
export const syncNotify = command('STORAGE_SYNC_NOTIFY', 88, syncSource, nothing);

const groupAndStorage = record({ group, id: storageId }, 'a storage query');

/** Asks whom the given storage copies from. */
export const syncSrcReq = command('STORAGE_SYNC_SRC_REQ', 86, groupAndStorage, maybeSyncSource);

/**
 * The body is empty on a joined connection; the reply is lines of the
 * changelog.
 */
export const changelogReq = command('STORAGE_CHANGELOG_REQ', 77, optional(groupAndStorage), latin1);

const syncedUntil = record({
  sourceId: storageId,
  /** Time of the last change synced from there; 0 if none. */
  seconds: i32,
});
export type SyncedUntil = BodyOf<typeof syncedUntil>;

/** How far each peer's changes have arrived. Needs a join. */
export const syncReport = command(
  'STORAGE_SYNC_REPORT',
  89,
  list(syncedUntil, 'a sync report', 1),
  changeList,
);

const statusReport = record({ group, brief: serverBrief }, 'STORAGE_REPORT_STATUS');

/** A source reports the status of its peer. */
export const reportStatus = command('STORAGE_REPORT_STATUS', 76, statusReport, nothing);

/** Servers missing from the tracker's list. Needs a join. */
export const replicaChange = command(
  'STORAGE_REPLICA_CHG',
  85,
  list(serverBrief, 'a replica change', 1),
  nothing,
);

/** Needs a join. */
export const changeStatus = command(
  'STORAGE_CHANGE_STATUS',
  59,
  only(u8, 'STORAGE_CHANGE_STATUS'),
  nothing,
);

const addressChange = record(
  { group, oldAddress: wideAddress, newAddress: wideAddress },
  'STORAGE_REPORT_IP_CHANGED',
);

export const reportIpChanged = command('STORAGE_REPORT_IP_CHANGED', 78, addressChange, nothing);

const trunkFileId = only(i32, 'a trunk file id');

/** Needs a join. */
export const fetchTrunkFileId = command('STORAGE_FETCH_TRUNK_FID', 72, nothing, trunkFileId);

/** From the trunk server. Needs a join. */
export const reportTrunkFileId = command('STORAGE_REPORT_TRUNK_FID', 73, trunkFileId, nothing);

/** MiB, from the trunk server. Needs a join. */
export const reportTrunkFree = command(
  'STORAGE_REPORT_TRUNK_FREE',
  74,
  only(size, 'STORAGE_REPORT_TRUNK_FREE'),
  nothing,
);

/**
 * Header status of STORAGE_REPORT_SERVER_ID: asks the peer to answer one byte if it is a
 * storage of Stevedore. FastDFS ignores it and answers without the byte.
 */
export const ASKS_IF_OURS = 1;

const idBody = only(storageId, 'STORAGE_REPORT_SERVER_ID');

const ownId: Codec<string> = {
  ...idBody,
  decode(bytes) {
    const id = idBody.decode(bytes);
    if (id === '') throw new ProtocolError('an empty storage id');
    return id;
  },
};

const isOurs: Codec<boolean> = {
  encode: (value) => Buffer.alloc(value ? 1 : 0, 1),
  decode: (bytes) => bytes.length === 1 && bytes[0] === 1,
};

/** The first request that a storage sends to a peer. */
export const reportServerId = command('STORAGE_REPORT_SERVER_ID', 9, ownId, isOurs);
