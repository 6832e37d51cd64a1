import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command, PayloadCommand } from '../command.js';
import {
  CommandCode,
  GROUP_BYTES,
  IP_BYTES,
  MAX_NAME_BYTES,
  MAX_PORT,
  STORAGE_ID_BYTES,
} from '../constants.js';
import { ProtocolError } from '../errors.js';
import { nothing } from './shared.js';

/**
 * Not of FastDFS: how storages with a metadata tier tell each other of their load,
 * through the tracker, and how one takes the bytes of another's small file in.
 */

/** Metadata servers in one list. */
export const MAX_METADATA_SERVERS = 1024;

/** Loads are bytes of the coming interval, as forecast. */
export interface MetadataServerLoad {
  readonly group: string;
  readonly id: string;
  readonly port: number;
  readonly intervalMs: number;
  /** B_logic. */
  readonly capacityBytes: number;
  readonly metadataBytes: number;
  readonly smallFileBytes: number;
  /** The efficiency that it wants to stay at or below, in thousandths. */
  readonly markPerMille: number;
  /** TL: the load of the files that it would move to another one; 0: none. */
  readonly toMoveBytes: number;
}

/** One that another knows of, with the address it is reached at. */
export interface MetadataServerRecord extends MetadataServerLoad {
  readonly host: string;
}

/** Whom the reporting server may give files in the coming interval, and how much. */
export interface TargetLease {
  readonly group: string;
  readonly id: string;
  readonly roomBytes: number;
}

export interface MetadataServerList {
  readonly lease: TargetLease | undefined;
  readonly servers: readonly MetadataServerRecord[];
}

/** `group str(16) | id str(16) | port | interval | capacity | metadata | small files | mark | to move`, i64 each */
const load: Codec<MetadataServerLoad> = {
  encode: (value) => writeLoad(new ByteWriter(), value).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const value = readLoad(reader);
    reader.end('METADATA_SERVER_REPORT');
    return value;
  },
};

/** `lease group str(16) | lease id str(16) | room i64`, empty without one; then for each server `host str(46)` and its load */
const list: Codec<MetadataServerList> = {
  encode({ lease, servers }) {
    const writer = new ByteWriter()
      .text(lease?.group ?? '', GROUP_BYTES, 'group')
      .text(lease?.id ?? '', STORAGE_ID_BYTES, 'id')
      .i64(lease?.roomBytes ?? 0);
    for (const server of servers) {
      writeLoad(writer.text(server.host, IP_BYTES.wide, 'host'), server);
    }
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const group = reader.text(GROUP_BYTES, 'group');
    const id = reader.text(STORAGE_ID_BYTES, 'id');
    const roomBytes = reader.size('room');
    const servers: MetadataServerRecord[] = [];
    while (reader.remaining > 0) {
      const host = reader.text(IP_BYTES.wide, 'host');
      servers.push({ host, ...readLoad(reader) });
      if (servers.length > MAX_METADATA_SERVERS) throw new ProtocolError('too many servers');
    }
    return { lease: group === '' ? undefined : { group, id, roomBytes }, servers };
  },
};

/** METADATA_SERVER_REPORT (212), to a tracker: the own load; the reply is that of all, and a target. */
export const metadataServerReport: Command<MetadataServerLoad, MetadataServerList> = {
  name: 'METADATA_SERVER_REPORT',
  code: CommandCode.metadataServerReport,
  request: load,
  reply: list,
};

export interface GuestRequest {
  /** The server that the file is of, as the tracker knows it. */
  readonly homeGroup: string;
  readonly homeId: string;
  /** What the file is called here, without the group. */
  readonly name: string;
  readonly size: number;
  readonly crc32: number;
  /** The load that it brings in an interval. */
  readonly loadBytes: number;
}

const GUEST_FIXED_BYTES = 4 * 8 + GROUP_BYTES + STORAGE_ID_BYTES;

/** `name_len i64 | size i64 | crc32 i64 | load i64 | home group str(16) | home id str(16) | name`, then the bytes */
export const guestStore: PayloadCommand<GuestRequest, undefined> = {
  name: 'GUEST_STORE',
  code: CommandCode.guestStore,
  request: {
    encode: ({ homeGroup, homeId, name, size, crc32, loadBytes }) =>
      new ByteWriter()
        .i64(name.length)
        .i64(size)
        .i64(crc32)
        .i64(loadBytes)
        .text(homeGroup, GROUP_BYTES, 'group')
        .text(homeId, STORAGE_ID_BYTES, 'id')
        .restText(name)
        .toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      const nameBytes = reader.size('name length');
      const size = reader.size('size');
      const crc32 = reader.size('crc32');
      const loadBytes = reader.size('load');
      const homeGroup = reader.text(GROUP_BYTES, 'group');
      const homeId = reader.text(STORAGE_ID_BYTES, 'id');
      if (nameBytes > MAX_NAME_BYTES) throw new ProtocolError('a name too long');
      const name = reader.bytes(nameBytes, 'name').toString('latin1');
      reader.end('GUEST_STORE');
      return { homeGroup, homeId, name, size, crc32, loadBytes };
    },
  },
  reply: nothing,
  minHeadBytes: GUEST_FIXED_BYTES,
  headBytes: (prefix) =>
    GUEST_FIXED_BYTES + Math.min(new ByteReader(prefix).size('name length'), MAX_NAME_BYTES + 1),
  payloadBytes: ({ size }) => size,
};

function writeLoad(writer: ByteWriter, value: MetadataServerLoad): ByteWriter {
  return writer
    .text(value.group, GROUP_BYTES, 'group')
    .text(value.id, STORAGE_ID_BYTES, 'id')
    .i64(value.port)
    .i64(value.intervalMs)
    .i64(value.capacityBytes)
    .i64(value.metadataBytes)
    .i64(value.smallFileBytes)
    .i64(value.markPerMille)
    .i64(value.toMoveBytes);
}

function readLoad(reader: ByteReader): MetadataServerLoad {
  const group = reader.text(GROUP_BYTES, 'group');
  const id = reader.text(STORAGE_ID_BYTES, 'id');
  const port = reader.size('port');
  const intervalMs = reader.size('interval');
  const capacityBytes = reader.size('capacity');
  if (port < 1 || port > MAX_PORT) throw new ProtocolError(`port ${port}`);
  if (intervalMs < 1 || capacityBytes < 1) throw new ProtocolError('a server that does nothing');
  return {
    group,
    id,
    port,
    intervalMs,
    capacityBytes,
    metadataBytes: reader.size('metadata'),
    smallFileBytes: reader.size('small files'),
    markPerMille: reader.size('mark'),
    toMoveBytes: reader.size('to move'),
  };
}
