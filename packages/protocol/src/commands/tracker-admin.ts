import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command } from '../command.js';
import { CommandCode, GROUP_BYTES, MAX_PORT, STORAGE_ID_BYTES } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { groupOnly, nothing } from './shared.js';
import { type ServerBrief, serverBrief } from './storage-tracker.js';

/** What tools and operators ask a tracker: who leads, who is who, remove this. */

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
