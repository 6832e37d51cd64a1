import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command } from '../command.js';
import { CommandCode, GROUP_BYTES, IP_BYTES, STORAGE_ID_BYTES } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { nothing } from './shared.js';
import { type ChangeList, changeList, type ServerBrief, serverBrief } from './storage-tracker.js';

/** What storages and trackers tell each other about who copies from whom. */

export interface SyncSource {
  /** Storage to copy from. */
  readonly sourceId: string;
  /** It copies what is older than this, unix seconds. */
  readonly untilSeconds: number;
}

const SYNC_SOURCE_BYTES = STORAGE_ID_BYTES + 8;

/** `src_id str(16) | until i64` */
const syncSource: Codec<SyncSource> = {
  encode: ({ sourceId, untilSeconds }) =>
    new ByteWriter().text(sourceId, STORAGE_ID_BYTES, 'src id').i64(untilSeconds).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const sourceId = reader.text(STORAGE_ID_BYTES, 'src id');
    const untilSeconds = reader.i64('until');
    reader.end('a sync source');
    return { sourceId, untilSeconds };
  },
};

/** As `syncSource`, or nothing: there is nobody to copy from. */
const maybeSyncSource: Codec<SyncSource | undefined> = {
  encode: (value) => (value ? syncSource.encode(value) : Buffer.alloc(0)),
  decode: (bytes) => (bytes.length === 0 ? undefined : syncSource.decode(bytes)),
};

/** STORAGE_SYNC_DEST_REQ (87): a new storage asks whom to copy from. Needs a join. */
export const syncDestReq: Command<undefined, SyncSource | undefined> = {
  name: 'STORAGE_SYNC_DEST_REQ',
  code: CommandCode.storageSyncDestReq,
  request: nothing,
  reply: maybeSyncSource,
};

/** STORAGE_SYNC_DEST_QUERY (79): whom do I copy from at present? Needs a join. */
export const syncDestQuery: Command<undefined, SyncSource | undefined> = {
  name: 'STORAGE_SYNC_DEST_QUERY',
  code: CommandCode.storageSyncDestQuery,
  request: nothing,
  reply: maybeSyncSource,
};

/** STORAGE_SYNC_NOTIFY (88): I copy from this one; an empty id: from nobody. Needs a join. */
export const syncNotify: Command<SyncSource, undefined> = {
  name: 'STORAGE_SYNC_NOTIFY',
  code: CommandCode.storageSyncNotify,
  request: {
    ...syncSource,
    decode(bytes) {
      if (bytes.length !== SYNC_SOURCE_BYTES) {
        throw new ProtocolError(`a sync notification of ${bytes.length} bytes`);
      }
      return syncSource.decode(bytes);
    },
  },
  reply: nothing,
};

export interface GroupAndStorage {
  readonly group: string;
  readonly id: string;
}

/** `group str(16) | id str(16)` */
const groupAndStorage: Codec<GroupAndStorage> = {
  encode: ({ group, id }) =>
    new ByteWriter().text(group, GROUP_BYTES, 'group').text(id, STORAGE_ID_BYTES, 'id').toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const group = reader.text(GROUP_BYTES, 'group');
    const id = reader.text(STORAGE_ID_BYTES, 'id');
    reader.end('a storage query');
    return { group, id };
  },
};

/** STORAGE_SYNC_SRC_REQ (86): whom does that storage copy from? */
export const syncSrcReq: Command<GroupAndStorage, SyncSource | undefined> = {
  name: 'STORAGE_SYNC_SRC_REQ',
  code: CommandCode.storageSyncSrcReq,
  request: groupAndStorage,
  reply: maybeSyncSource,
};

/** STORAGE_CHANGELOG_REQ (77): empty on a joined connection, else `group | id`; log lines. */
export const changelogReq: Command<GroupAndStorage | undefined, string> = {
  name: 'STORAGE_CHANGELOG_REQ',
  code: CommandCode.storageChangelogReq,
  request: {
    encode: (value) => (value ? groupAndStorage.encode(value) : Buffer.alloc(0)),
    decode: (bytes) => (bytes.length === 0 ? undefined : groupAndStorage.decode(bytes)),
  },
  reply: {
    encode: (value) => Buffer.from(value, 'latin1'),
    decode: (bytes) => bytes.toString('latin1'),
  },
};

export interface SyncedUntil {
  readonly sourceId: string;
  /** Time of the last change that came from there; 0 for none. */
  readonly seconds: number;
}

const SYNC_REPORT_BYTES = STORAGE_ID_BYTES + 4;

/** `src_id str(16) | timestamp i32` for each peer, at least one */
const syncReports: Codec<readonly SyncedUntil[]> = {
  encode(reports) {
    const writer = new ByteWriter();
    for (const each of reports) {
      writer.text(each.sourceId, STORAGE_ID_BYTES, 'src id').i32(each.seconds);
    }
    return writer.toBuffer();
  },
  decode(bytes) {
    if (bytes.length === 0 || bytes.length % SYNC_REPORT_BYTES !== 0) {
      throw new ProtocolError(`a sync report of ${bytes.length} bytes`);
    }
    const reader = new ByteReader(bytes);
    const reports: SyncedUntil[] = [];
    while (reader.remaining > 0) {
      const sourceId = reader.text(STORAGE_ID_BYTES, 'src id');
      reports.push({ sourceId, seconds: reader.i32('timestamp') });
    }
    return reports;
  },
};

/** STORAGE_SYNC_REPORT (89). Needs a join. */
export const syncReport: Command<readonly SyncedUntil[], ChangeList> = {
  name: 'STORAGE_SYNC_REPORT',
  code: CommandCode.storageSyncReport,
  request: syncReports,
  reply: changeList,
};

export interface StatusReport {
  readonly group: string;
  readonly brief: ServerBrief;
}

/** STORAGE_REPORT_STATUS (76): `group str(16)` and a brief record: a source tells of its peer. */
export const reportStatus: Command<StatusReport, undefined> = {
  name: 'STORAGE_REPORT_STATUS',
  code: CommandCode.storageReportStatus,
  request: {
    encode: ({ group, brief }) =>
      new ByteWriter().text(group, GROUP_BYTES, 'group').raw(serverBrief.encode(brief)).toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const group = reader.text(GROUP_BYTES, 'group');
      return { group, brief: serverBrief.decode(reader.rest()) };
    },
  },
  reply: nothing,
};

/** STORAGE_REPLICA_CHG (85): servers that the tracker's list lacks. Needs a join. */
export const replicaChange: Command<readonly ServerBrief[], undefined> = {
  name: 'STORAGE_REPLICA_CHG',
  code: CommandCode.storageReplicaChange,
  request: {
    encode: (briefs) => Buffer.concat(briefs.map((brief) => serverBrief.encode(brief))),
    decode(bytes) {
      const width = serverBrief.bytes;
      if (bytes.length === 0 || bytes.length % width !== 0) {
        throw new ProtocolError(`a replica change of ${bytes.length} bytes`);
      }
      return Array.from({ length: bytes.length / width }, (_, index) =>
        serverBrief.decode(bytes.subarray(index * width, (index + 1) * width)),
      );
    },
  },
  reply: nothing,
};

/** STORAGE_CHANGE_STATUS (59): `status u8`. Needs a join. */
export const changeStatus: Command<number, undefined> = {
  name: 'STORAGE_CHANGE_STATUS',
  code: CommandCode.storageChangeStatus,
  request: {
    encode: (status) => Buffer.from([status]),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const status = reader.u8('status');
      reader.end('STORAGE_CHANGE_STATUS');
      return status;
    },
  },
  reply: nothing,
};

export interface AddressChange {
  readonly group: string;
  readonly oldAddress: string;
  readonly newAddress: string;
}

/** STORAGE_REPORT_IP_CHANGED (78): `group str(16) | old ip str(46) | new ip str(46)` */
export const reportIpChanged: Command<AddressChange, undefined> = {
  name: 'STORAGE_REPORT_IP_CHANGED',
  code: CommandCode.storageReportIpChanged,
  request: {
    encode: ({ group, oldAddress, newAddress }) =>
      new ByteWriter()
        .text(group, GROUP_BYTES, 'group')
        .text(oldAddress, IP_BYTES.wide, 'old ip')
        .text(newAddress, IP_BYTES.wide, 'new ip')
        .toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const group = reader.text(GROUP_BYTES, 'group');
      const oldAddress = reader.text(IP_BYTES.wide, 'old ip');
      const newAddress = reader.text(IP_BYTES.wide, 'new ip');
      reader.end('STORAGE_REPORT_IP_CHANGED');
      return { group, oldAddress, newAddress };
    },
  },
  reply: nothing,
};

const oneInt: Codec<number> = {
  encode: (value) => new ByteWriter().i32(value).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const value = reader.i32('id');
    reader.end('a trunk file id');
    return value;
  },
};

/** STORAGE_FETCH_TRUNK_FID (72). Needs a join. */
export const fetchTrunkFileId: Command<undefined, number> = {
  name: 'STORAGE_FETCH_TRUNK_FID',
  code: CommandCode.storageFetchTrunkFid,
  request: nothing,
  reply: oneInt,
};

/** STORAGE_REPORT_TRUNK_FID (73), from the trunk server. Needs a join. */
export const reportTrunkFileId: Command<number, undefined> = {
  name: 'STORAGE_REPORT_TRUNK_FID',
  code: CommandCode.storageReportTrunkFid,
  request: oneInt,
  reply: nothing,
};

/** STORAGE_REPORT_TRUNK_FREE (74), MiB, from the trunk server. Needs a join. */
export const reportTrunkFree: Command<number, undefined> = {
  name: 'STORAGE_REPORT_TRUNK_FREE',
  code: CommandCode.storageReportTrunkFree,
  request: {
    encode: (megabytes) => new ByteWriter().i64(megabytes).toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const megabytes = reader.size('free space');
      reader.end('STORAGE_REPORT_TRUNK_FREE');
      return megabytes;
    },
  },
  reply: nothing,
};

/**
 * Header status of STORAGE_REPORT_SERVER_ID: asks for a byte in the answer if the other takes
 * SYNC_CREATE_LINK. FastDFS does not look at it and answers without: its versions 6.13 to
 * 6.16.1 log a link that they are sent without its name, and send their log no further.
 */
export const ASKS_FOR_LINKS = 1;

/** STORAGE_REPORT_SERVER_ID (9): the first request of a storage to another: `id str(16)` */
export const reportServerId: Command<string, boolean> = {
  name: 'STORAGE_REPORT_SERVER_ID',
  code: CommandCode.storageReportServerId,
  request: {
    encode: (id) => new ByteWriter().text(id, STORAGE_ID_BYTES, 'id').toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const id = reader.text(STORAGE_ID_BYTES, 'id');
      reader.end('STORAGE_REPORT_SERVER_ID');
      if (id === '') throw new ProtocolError('an empty storage id');
      return id;
    },
  },
  reply: {
    encode: (takesLinks) => Buffer.alloc(takesLinks ? 1 : 0, 1),
    decode: (bytes) => bytes.length === 1 && bytes[0] === 1,
  },
};
