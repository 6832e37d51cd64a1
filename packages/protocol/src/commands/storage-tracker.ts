import { ProtocolError, readU8 } from '../bytes.js';
import { GROUP_WIDE_BYTES, IP_BYTES, STORAGE_ID_BYTES, VERSION_BYTES } from '../constants.js';
import {
  type BodyOf,
  type Codec,
  type Field,
  flag,
  i32,
  i64,
  lines,
  list,
  port,
  record,
  size,
  text,
  u8,
} from '../layout.js';
import { command, latin1, nothing, optional, raw } from './shared.js';

/** What a storage sends to its trackers, over one long-lived connection to each. */

const wideGroup = text(GROUP_WIDE_BYTES);
export const storageId = text(STORAGE_ID_BYTES);
export const wideAddress = text(IP_BYTES.wide);

const getMyIpRequest = record({ group: wideGroup, port: i32 }, 'GET_MY_IP');

/** The caller's address as the tracker sees it. */
export const getMyIp = command('STORAGE_GET_MY_IP', 60, getMyIpRequest, latin1);

export type Parameters = ReadonlyMap<string, string>;

/** One `key=value` a line. */
const parameters: Codec<Parameters> = {
  encode: (value) =>
    Buffer.from([...value].map(([key, text]) => `${key}=${text}\n`).join(''), 'latin1'),
  decode(bytes) {
    const map = new Map<string, string>();
    for (const line of bytes.toString('latin1').split('\n')) {
      const equals = line.indexOf('=');
      if (equals > 0) map.set(line.slice(0, equals).trim(), line.slice(equals + 1).trim());
    }
    return map;
  },
};

/** The cluster's settings on the tracker. */
export const parameterReq = command('STORAGE_PARAMETER_REQ', 75, nothing, parameters);

const MAX_TRACKERS = 16;

const signedByte: Field<number> = {
  ...u8,
  read: (reader, name) => (readU8(reader, name) << 24) >> 24,
};

const joinRequest = record({
  group: wideGroup,
  port,
  storePathCount: size,
  subdirectoriesPerPath: size,
  uploadPriority: i64,
  /** Unix seconds of this storage's very first start. */
  joinedAtSeconds: i64,
  /** Unix seconds of this start. */
  startedAtSeconds: i64,
  version: text(VERSION_BYTES),
  /** True until the initial sync with the group is complete. */
  initial: flag,
  /** The storage's last status known from a tracker; -1 before the first. */
  status: signedByte,
  /** Empty unless the cluster uses storage ids. */
  storageId,
  /** This tracker's address as the storage knows it. */
  trackerAddress: wideAddress,
  /** All trackers, `ip:port`. */
  trackers: lines(size, 1, MAX_TRACKERS),
});
export type JoinRequest = BodyOf<typeof joinRequest>;

const joinReply = record({
  status: u8,
  /** Source of the initial sync; empty if there is none. */
  sourceId: storageId,
});

/** Makes the storage known to the tracker. */
export const join = command('STORAGE_JOIN', 81, joinRequest, joinReply);

/** A statistics block, still encoded. */
const statisticsBytes: Codec<Buffer> = {
  ...raw,
  decode(bytes) {
    if (bytes.length === statistics.bytes.wide) return bytes;
    throw new ProtocolError(`a beat of ${bytes.length} bytes`);
  },
};

/** A server in a change list. */
export const serverBrief = record(
  { status: u8, port: i32, id: storageId, address: wideAddress },
  'a brief record',
);
export type ServerBrief = BodyOf<typeof serverBrief>;

/** What changed since the last beat; unchanged parts are absent. */
export interface ChangeList {
  readonly leader?: ServerBrief;
  readonly trunkServer?: ServerBrief;
  readonly members?: readonly ServerBrief[];
}

const ChangeFlag = { leader: 1, trunkServer: 2, members: 4 } as const;
const briefs = list(serverBrief, 'a change list');

/** `flags u8`, then briefs: leader, trunk server, members, each if its flag is set. */
export const changeList: Codec<ChangeList> = {
  encode({ leader, trunkServer, members }) {
    const flags =
      (leader ? ChangeFlag.leader : 0) |
      (trunkServer ? ChangeFlag.trunkServer : 0) |
      (members ? ChangeFlag.members : 0);
    const all = [leader, trunkServer, ...(members ?? [])].filter((each) => each !== undefined);
    return Buffer.concat([Buffer.from([flags]), briefs.encode(all)]);
  },
  decode(bytes) {
    if (bytes.length === 0) return {};
    const flags = bytes.readUInt8(0);
    const left = [...briefs.decode(bytes.subarray(1))];
    const next = (): ServerBrief => {
      const brief = left.shift();
      if (!brief) throw new ProtocolError(`a change list of ${bytes.length} bytes`);
      return brief;
    };
    return {
      ...(flags & ChangeFlag.leader ? { leader: next() } : {}),
      ...(flags & ChangeFlag.trunkServer ? { trunkServer: next() } : {}),
      ...(flags & ChangeFlag.members ? { members: left } : {}),
    };
  },
};

/** Heartbeat. Needs a join. */
export const beat = command('STORAGE_BEAT', 83, optional(statisticsBytes), changeList);

/** Space of one store path. */
const diskUsage = record({ totalMegabytes: size, freeMegabytes: size });
export type DiskUsage = BodyOf<typeof diskUsage>;

/** One entry per store path. Needs a join. */
export const reportDiskUsage = command(
  'STORAGE_REPORT_DISK_USAGE',
  84,
  list(diskUsage, 'a disk report', 1),
  changeList,
);

/**
 * The 348-byte statistics block that storages send with their beats and trackers include in storage
 * records: three i32 connection counts, then 42 i64.
 */

const OPERATIONS = [
  'upload',
  'append',
  'modify',
  'truncate',
  'setMetadata',
  'delete',
  'download',
  'getMetadata',
  'createLink',
  'deleteLink',
  'uploadBytes',
  'appendBytes',
  'modifyBytes',
  'downloadBytes',
  'syncInBytes',
  'syncOutBytes',
  'fileOpen',
  'fileRead',
  'fileWrite',
] as const;

export type CountedOperation = (typeof OPERATIONS)[number];

const operationCount = record({ total: i64, success: i64 });
export type OperationCount = BodyOf<typeof operationCount>;

const countOf = Object.fromEntries(OPERATIONS.map((name) => [name, operationCount])) as Readonly<
  Record<CountedOperation, typeof operationCount>
>;

export const connectionCounts = record({ allocated: i32, current: i32, max: i32 });

export const statistics = record(
  {
    connections: connectionCounts,
    operations: record(countOf),
    /** Unix seconds; 0 for never. */
    times: record({
      lastSourceUpdateSeconds: i64,
      lastSyncUpdateSeconds: i64,
      lastSyncedSeconds: i64,
      lastHeartBeatSeconds: i64,
    }),
  },
  'a statistics block',
);
export type StorageStatistics = BodyOf<typeof statistics>;

export const encodeStatistics = (value: StorageStatistics): Buffer => statistics.encode(value);
export const decodeStatistics = (bytes: Buffer): StorageStatistics => statistics.decode(bytes);

export function emptyStatistics(): StorageStatistics {
  return statistics.decode(Buffer.alloc(statistics.bytes.wide));
}
