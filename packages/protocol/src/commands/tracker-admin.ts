import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command } from '../command.js';
import {
  CommandCode,
  GROUP_BYTES,
  GROUP_WIDE_BYTES,
  MAX_PORT,
  STORAGE_ID_BYTES,
  VERSION_BYTES,
} from '../constants.js';
import { ProtocolError } from '../errors.js';
import { groupOnly, nothing } from './shared.js';
import { type ServerBrief, serverBrief } from './storage-tracker.js';

/** What tools and operators ask a tracker: who leads, how is it, remove this. */

/** Width of a text `ip:port`. */
const HOST_BYTES = 52;

const plainText: Codec<string> = {
  encode: (value) => Buffer.from(value, 'latin1'),
  decode: (bytes) => bytes.toString('latin1'),
};

/** GET_LEADER (95): `ip:port` */
export const getLeader: Command<undefined, string> = {
  name: 'GET_LEADER',
  code: CommandCode.getLeader,
  request: nothing,
  reply: plainText,
};

export interface GroupAndId {
  readonly group: string;
  readonly id: string;
}

/** `group str(16) | id text, 1 to 15 bytes` */
const groupAndId: Codec<GroupAndId> = {
  encode: ({ group, id }) =>
    new ByteWriter().text(group, GROUP_BYTES, 'group').restText(id).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const group = reader.text(GROUP_BYTES, 'group');
    if (reader.remaining < 1 || reader.remaining >= STORAGE_ID_BYTES) {
      throw new ProtocolError(`a storage id of ${reader.remaining} bytes`);
    }
    return { group, id: reader.restText() };
  },
};

/** DELETE_STORAGE (93) */
export const deleteStorage: Command<GroupAndId, undefined> = {
  name: 'DELETE_STORAGE',
  code: CommandCode.deleteStorage,
  request: groupAndId,
  reply: nothing,
};

/** DELETE_GROUP (108) */
export const deleteGroup: Command<{ readonly group: string }, undefined> = {
  name: 'DELETE_GROUP',
  code: CommandCode.deleteGroup,
  request: groupOnly,
  reply: nothing,
};

/** `group str(16) [| id text]`; an empty id lets the tracker elect. */
const trunkServerRequest: Codec<GroupAndId> = {
  encode: groupAndId.encode,
  decode: (bytes) =>
    bytes.length === GROUP_BYTES
      ? { ...groupOnly.decode(bytes), id: '' }
      : groupAndId.decode(bytes),
};

/** SET_TRUNK_SERVER (94): the reply is the id of the trunk server and a NUL. */
export const setTrunkServer: Command<GroupAndId, string> = {
  name: 'SET_TRUNK_SERVER',
  code: CommandCode.setTrunkServer,
  request: trunkServerRequest,
  reply: {
    encode: (id) => Buffer.from(`${id}\0`, 'latin1'),
    decode: (bytes) => new ByteReader(bytes).text(bytes.length, 'id'),
  },
};

/** Three counts of a daemon's connections. */
export interface ConnectionCounts {
  readonly allocated: number;
  readonly current: number;
  readonly max: number;
}

function writeCounts(writer: ByteWriter, counts: ConnectionCounts): void {
  writer.i32(counts.allocated).i32(counts.current).i32(counts.max);
}

function readCounts(reader: ByteReader): ConnectionCounts {
  const allocated = reader.i32('allocated');
  const current = reader.i32('current');
  return { allocated, current, max: reader.i32('max') };
}

function readRecords<Item>(reader: ByteReader, count: number, read: () => Item): Item[] {
  const items: Item[] = [];
  for (let index = 0; index < count; index++) items.push(read());
  reader.end('a list');
  return items;
}

/** Only what is named counts. */
export interface TrackerFilter {
  readonly active?: boolean;
  readonly leader?: boolean;
}

export interface TrackerStat {
  /** `ip:port` */
  readonly host: string;
  readonly isLeader: boolean;
  readonly isActive: boolean;
  readonly connections: ConnectionCounts;
  readonly version: string;
  readonly startedAtSeconds: number;
  readonly heardAtSeconds: number;
}

/** `filter_by u8 (1 active, 2 leader) | is_active u8 | is_leader u8` */
const trackerFilter: Codec<TrackerFilter> = {
  encode: ({ active, leader }) =>
    Buffer.from([
      (active === undefined ? 0 : 1) | (leader === undefined ? 0 : 2),
      Number(active ?? 0),
      Number(leader ?? 0),
    ]),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const by = reader.u8('filter');
    const active = reader.u8('is_active') !== 0;
    const leader = reader.u8('is_leader') !== 0;
    reader.end('TRACKER_CLUSTER_STAT');
    return { ...(by & 1 ? { active } : {}), ...(by & 2 ? { leader } : {}) };
  },
};

/** `count u8`, then records of 90 bytes */
const trackerStats: Codec<readonly TrackerStat[]> = {
  encode(trackers) {
    const writer = new ByteWriter().u8(trackers.length);
    for (const each of trackers) {
      writer
        .text(each.host, HOST_BYTES, 'host')
        .u8(Number(each.isLeader))
        .u8(Number(each.isActive));
      writeCounts(writer, each.connections);
      writer
        .text(each.version, VERSION_BYTES, 'version')
        .i64(each.startedAtSeconds)
        .i64(each.heardAtSeconds);
    }
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    return readRecords(reader, reader.u8('count'), () => ({
      host: reader.text(HOST_BYTES, 'host'),
      isLeader: reader.u8('leader') !== 0,
      isActive: reader.u8('active') !== 0,
      connections: readCounts(reader),
      version: reader.text(VERSION_BYTES, 'version'),
      startedAtSeconds: reader.i64('up time'),
      heardAtSeconds: reader.i64('heartbeat'),
    }));
  },
};

/** TRACKER_CLUSTER_STAT (96) */
export const trackerClusterStat: Command<TrackerFilter, readonly TrackerStat[]> = {
  name: 'TRACKER_CLUSTER_STAT',
  code: CommandCode.trackerClusterStat,
  request: trackerFilter,
  reply: trackerStats,
};

export interface StorageFilter {
  readonly trunkServer?: boolean;
  readonly status?: { readonly equals: boolean; readonly value: number };
}

export interface StorageStat {
  readonly id: string;
  /** `ip:port` */
  readonly host: string;
  readonly isTrunkServer: boolean;
  readonly status: number;
  readonly connections: ConnectionCounts;
  readonly version: string;
  readonly startedAtSeconds: number;
  readonly heardAtSeconds: number;
}

export interface StorageStats {
  readonly usesStorageIds: boolean;
  readonly usesTrunkFiles: boolean;
  readonly storages: readonly StorageStat[];
}

const EQUALS = '='.charCodeAt(0);
const DIFFERS = '!'.charCodeAt(0);

/** `filter_by u8 (1 trunk server, 2 status) | op u8 | status u8 | is_trunk u8` */
const storageFilter: Codec<StorageFilter> = {
  encode: ({ trunkServer, status }) =>
    Buffer.from([
      (trunkServer === undefined ? 0 : 1) | (status === undefined ? 0 : 2),
      status === undefined ? 0 : status.equals ? EQUALS : DIFFERS,
      status?.value ?? 0,
      Number(trunkServer ?? 0),
    ]),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const by = reader.u8('filter');
    const equals = reader.u8('op') !== DIFFERS;
    const value = reader.u8('status');
    const trunkServer = reader.u8('is_trunk') !== 0;
    reader.end('STORAGE_CLUSTER_STAT');
    return { ...(by & 1 ? { trunkServer } : {}), ...(by & 2 ? { status: { equals, value } } : {}) };
  },
};

/** `use_storage_id u8 | use_trunk_file u8 | count i32`, then records of 106 bytes */
const storageStats: Codec<StorageStats> = {
  encode({ usesStorageIds, usesTrunkFiles, storages }) {
    const writer = new ByteWriter()
      .u8(Number(usesStorageIds))
      .u8(Number(usesTrunkFiles))
      .i32(storages.length);
    for (const each of storages) {
      writer
        .text(each.id, STORAGE_ID_BYTES, 'id')
        .text(each.host, HOST_BYTES, 'host')
        .u8(Number(each.isTrunkServer))
        .u8(each.status);
      writeCounts(writer, each.connections);
      writer
        .text(each.version, VERSION_BYTES, 'version')
        .i64(each.startedAtSeconds)
        .i64(each.heardAtSeconds);
    }
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const usesStorageIds = reader.u8('use_storage_id') !== 0;
    const usesTrunkFiles = reader.u8('use_trunk_file') !== 0;
    const storages = readRecords(reader, reader.i32('count'), () => ({
      id: reader.text(STORAGE_ID_BYTES, 'id'),
      host: reader.text(HOST_BYTES, 'host'),
      isTrunkServer: reader.u8('trunk') !== 0,
      status: reader.u8('status'),
      connections: readCounts(reader),
      version: reader.text(VERSION_BYTES, 'version'),
      startedAtSeconds: reader.i64('up time'),
      heardAtSeconds: reader.i64('heartbeat'),
    }));
    return { usesStorageIds, usesTrunkFiles, storages };
  },
};

/** STORAGE_CLUSTER_STAT (97) */
export const storageClusterStat: Command<StorageFilter, StorageStats> = {
  name: 'STORAGE_CLUSTER_STAT',
  code: CommandCode.storageClusterStat,
  request: storageFilter,
  reply: storageStats,
};

export interface VolumeFilter {
  readonly disk?: boolean;
  readonly trunk?: boolean;
  readonly space?: boolean;
}

export interface Volume {
  readonly group: string;
  readonly totalMegabytes: number;
  readonly freeMegabytes: number;
  readonly reservedMegabytes: number;
  readonly availableMegabytes: number;
  readonly trunkFreeMegabytes: number;
  readonly isDiskAvailable: boolean;
  readonly isTrunkAvailable: boolean;
}

export interface Volumes {
  readonly usesTrunkFiles: boolean;
  readonly volumes: readonly Volume[];
}

/** `filter_by u8 (1 disk, 2 trunk, 4 space) | is_disk u8 | is_trunk u8 | is_space u8` */
const volumeFilter: Codec<VolumeFilter> = {
  encode: ({ disk, trunk, space }) =>
    Buffer.from([
      (disk === undefined ? 0 : 1) | (trunk === undefined ? 0 : 2) | (space === undefined ? 0 : 4),
      Number(disk ?? 0),
      Number(trunk ?? 0),
      Number(space ?? 0),
    ]),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const by = reader.u8('filter');
    const disk = reader.u8('is_disk') !== 0;
    const trunk = reader.u8('is_trunk') !== 0;
    const space = reader.u8('is_space') !== 0;
    reader.end('STORAGE_VOLUMN_STAT');
    return {
      ...(by & 1 ? { disk } : {}),
      ...(by & 2 ? { trunk } : {}),
      ...(by & 4 ? { space } : {}),
    };
  },
};

/** `use_trunk u8 | count i32`, then records of 59 bytes */
const volumes: Codec<Volumes> = {
  encode(value) {
    const writer = new ByteWriter().u8(Number(value.usesTrunkFiles)).i32(value.volumes.length);
    for (const each of value.volumes) {
      writer
        .text(each.group, GROUP_WIDE_BYTES, 'group')
        .i64(each.totalMegabytes)
        .i64(each.freeMegabytes)
        .i64(each.reservedMegabytes)
        .i64(each.availableMegabytes)
        .i64(each.trunkFreeMegabytes)
        .u8(Number(each.isDiskAvailable))
        .u8(Number(each.isTrunkAvailable));
    }
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const usesTrunkFiles = reader.u8('use_trunk') !== 0;
    const list = readRecords(reader, reader.i32('count'), () => ({
      group: reader.text(GROUP_WIDE_BYTES, 'group'),
      totalMegabytes: reader.i64('total'),
      freeMegabytes: reader.i64('free'),
      reservedMegabytes: reader.i64('reserved'),
      availableMegabytes: reader.i64('available'),
      trunkFreeMegabytes: reader.i64('trunk free'),
      isDiskAvailable: reader.u8('disk') !== 0,
      isTrunkAvailable: reader.u8('trunk') !== 0,
    }));
    return { usesTrunkFiles, volumes: list };
  },
};

/** STORAGE_VOLUMN_STAT (98); the name is spelt as in FastDFS. */
export const storageVolumeStat: Command<VolumeFilter, Volumes> = {
  name: 'STORAGE_VOLUMN_STAT',
  code: CommandCode.storageVolumeStat,
  request: volumeFilter,
  reply: volumes,
};

export interface GroupAndHost {
  readonly group: string;
  readonly address: string;
  readonly port: number;
}

/** `group str(16) | "ip:port" text`, an IPv6 address in brackets */
const groupAndHost: Codec<GroupAndHost> = {
  encode: ({ group, address, port }) =>
    new ByteWriter()
      .text(group, GROUP_BYTES, 'group')
      .restText(`${address.includes(':') ? `[${address}]` : address}:${port}`)
      .toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const group = reader.text(GROUP_BYTES, 'group');
    const text = reader.restText();
    const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s:]+)):(\d{1,5})$/.exec(text);
    const port = Number(match?.[3]);
    if (!match || port < 1 || port > MAX_PORT) throw new ProtocolError(`an address "${text}"`);
    return { group, address: match[1] ?? match[2]!, port };
  },
};

/** GET_STATUS (71) */
export const getStorageStatus: Command<GroupAndHost, ServerBrief> = {
  name: 'GET_STATUS',
  code: CommandCode.getStorageStatus,
  request: groupAndHost,
  reply: serverBrief,
};

/** GET_SERVER_ID (70) */
export const getServerId: Command<GroupAndHost, string> = {
  name: 'GET_SERVER_ID',
  code: CommandCode.getServerId,
  request: groupAndHost,
  reply: plainText,
};

export interface HostAndPort {
  /** Empty: the caller's own. */
  readonly address: string;
  readonly port: number;
}

/** `[ip text |] port i32` */
const hostAndPort: Codec<HostAndPort> = {
  encode: ({ address, port }) => new ByteWriter().restText(address).i32(port).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const address = reader.bytes(Math.max(bytes.length - 4, 0), 'ip').toString('latin1');
    return { address, port: reader.i32('port') };
  },
};

/** GET_GROUP_NAME (109): the group of a storage, where storages have ids. */
export const getGroupName: Command<HostAndPort, { readonly group: string }> = {
  name: 'GET_GROUP_NAME',
  code: CommandCode.getGroupName,
  request: hostAndPort,
  reply: groupOnly,
};

export interface StorageIdsRequest {
  readonly start: number;
  /** False: status 95 where storages have no ids. */
  readonly allowEmpty: boolean;
}

export interface StorageIdsReply {
  readonly total: number;
  /** `id group ip[,ip2][:port][ rw=mode]` */
  readonly lines: readonly string[];
}

/** FETCH_STORAGE_IDS (69): `start i32 | allow_empty u8`; `total i32 | count i32 | lines` */
export const fetchStorageIds: Command<StorageIdsRequest, StorageIdsReply> = {
  name: 'FETCH_STORAGE_IDS',
  code: CommandCode.fetchStorageIds,
  request: {
    encode: ({ start, allowEmpty }) =>
      new ByteWriter().i32(start).u8(Number(allowEmpty)).toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const start = reader.i32('start');
      const allowEmpty = reader.u8('allow_empty') !== 0;
      reader.end('FETCH_STORAGE_IDS');
      return { start, allowEmpty };
    },
  },
  reply: {
    encode: ({ total, lines }) =>
      new ByteWriter()
        .i32(total)
        .i32(lines.length)
        .restText(lines.map((line) => `${line}\n`).join(''))
        .toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const total = reader.i32('total');
      const count = reader.i32('count');
      const lines = reader.restText().split('\n').filter(Boolean);
      if (lines.length !== count) {
        throw new ProtocolError(`${count} storage ids announced, ${lines.length} sent`);
      }
      return { total, lines };
    },
  },
};

export interface TrackerStatus {
  readonly isLeader: boolean;
  readonly runningSeconds: number;
  readonly restartSeconds: number;
}

/** TRACKER_GET_STATUS (64): `is_leader u8 | running i64 | restart i64` */
export const trackerGetStatus: Command<undefined, TrackerStatus> = {
  name: 'TRACKER_GET_STATUS',
  code: CommandCode.trackerGetStatus,
  request: nothing,
  reply: {
    encode: ({ isLeader, runningSeconds, restartSeconds }) =>
      new ByteWriter().u8(Number(isLeader)).i64(runningSeconds).i64(restartSeconds).toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const isLeader = reader.u8('leader') !== 0;
      const runningSeconds = reader.i64('running');
      return { isLeader, runningSeconds, restartSeconds: reader.i64('restart') };
    },
  },
};
