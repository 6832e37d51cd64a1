import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command } from '../command.js';
import {
  CommandCode,
  GROUP_BYTES,
  type IpWidth,
  MAX_GROUP_SERVERS,
  MAX_NAME_BYTES,
  MAX_PORT,
  MIN_NAME_BYTES,
  QUERY_IP_BYTES,
} from '../constants.js';
import { ProtocolError } from '../errors.js';
import { type FileName, fileName, groupOnly, nothing } from './shared.js';

/** Where to send a file: a storage and the store path to name in the upload. */
export interface StoreTarget {
  readonly group: string;
  readonly address: string;
  readonly port: number;
  readonly storePathIndex: number;
}

/** Where to ask for a file. */
export interface FetchTarget {
  readonly group: string;
  readonly address: string;
  readonly port: number;
}

/**
 * 40 or 70 bytes, told apart by length:
 *
 *     group str(16) | ip (15|45) | port i64 | store_path_index u8
 */
const storeTarget: Codec<StoreTarget> = {
  encode: (value, width = 'narrow') => target(value, width).u8(value.storePathIndex).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const where = readTarget(reader, bytes.length, 9);
    return { ...where, storePathIndex: reader.u8('store_path_index') };
  },
};

/**
 * 39 or 69 bytes:
 *
 *     group str(16) | ip (15|45) | port i64
 */
const fetchTarget: Codec<FetchTarget> = {
  encode: (value, width = 'narrow') => target(value, width).toBuffer(),
  decode: (bytes) => readTarget(new ByteReader(bytes), bytes.length, 8),
};

/** As `fileName`, with the lengths a tracker accepts. */
const queriedName: Codec<FileName> = {
  encode: fileName.encode,
  decode(bytes) {
    const nameBytes = bytes.length - GROUP_BYTES;
    if (nameBytes < MIN_NAME_BYTES || nameBytes > MAX_NAME_BYTES) {
      throw new ProtocolError(`a file name of ${nameBytes} bytes`);
    }
    return fileName.decode(bytes);
  },
};

/** QUERY_STORE_WITHOUT_GROUP_ONE (101): a storage of any group for an upload. */
export const queryStore: Command<undefined, StoreTarget> = {
  name: 'QUERY_STORE_WITHOUT_GROUP_ONE',
  code: CommandCode.queryStoreWithoutGroupOne,
  request: nothing,
  reply: storeTarget,
};

/** QUERY_STORE_WITH_GROUP_ONE (104): a storage of the named group for an upload. */
export const queryStoreInGroup: Command<{ readonly group: string }, StoreTarget> = {
  name: 'QUERY_STORE_WITH_GROUP_ONE',
  code: CommandCode.queryStoreWithGroupOne,
  request: groupOnly,
  reply: storeTarget,
};

/** QUERY_FETCH_ONE (102): a storage to read the file from. */
export const queryFetch: Command<FileName, FetchTarget> = {
  name: 'QUERY_FETCH_ONE',
  code: CommandCode.queryFetchOne,
  request: queriedName,
  reply: fetchTarget,
};

/** QUERY_UPDATE (103): the storage on which the file may be changed or deleted. */
export const queryUpdate: Command<FileName, FetchTarget> = {
  name: 'QUERY_UPDATE',
  code: CommandCode.queryUpdate,
  request: queriedName,
  reply: fetchTarget,
};

/** Every storage that an upload may go to, all of one group. */
export interface StoreTargets {
  readonly group: string;
  readonly servers: readonly ServerAddress[];
  readonly storePathIndex: number;
}

/** Every storage that has the file. */
export interface FetchTargets {
  readonly group: string;
  readonly servers: readonly ServerAddress[];
}

export interface ServerAddress {
  readonly address: string;
  readonly port: number;
}

/** `group str(16) | n x { ip (15|45) | port i64 } | store_path_index u8` */
const storeTargets: Codec<StoreTargets> = {
  encode: (value, width = 'narrow') => targets(value, width).u8(value.storePathIndex).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const where = readTargets(reader, 1);
    return { ...where, storePathIndex: reader.u8('store_path_index') };
  },
};

/** `group str(16) | n x { ip (15|45) | port i64 }` */
const fetchTargets: Codec<FetchTargets> = {
  encode: (value, width = 'narrow') => targets(value, width).toBuffer(),
  decode: (bytes) => readTargets(new ByteReader(bytes), 0),
};

/** QUERY_STORE_WITHOUT_GROUP_ALL (106) */
export const queryStoreAll: Command<undefined, StoreTargets> = {
  name: 'QUERY_STORE_WITHOUT_GROUP_ALL',
  code: CommandCode.queryStoreWithoutGroupAll,
  request: nothing,
  reply: storeTargets,
};

/** QUERY_STORE_WITH_GROUP_ALL (107) */
export const queryStoreInGroupAll: Command<{ readonly group: string }, StoreTargets> = {
  name: 'QUERY_STORE_WITH_GROUP_ALL',
  code: CommandCode.queryStoreWithGroupAll,
  request: groupOnly,
  reply: storeTargets,
};

/** QUERY_FETCH_ALL (105): every storage the file may be read from. */
export const queryFetchAll: Command<FileName, FetchTargets> = {
  name: 'QUERY_FETCH_ALL',
  code: CommandCode.queryFetchAll,
  request: queriedName,
  reply: fetchTargets,
};

function targets({ group, servers }: FetchTargets, width: IpWidth): ByteWriter {
  const writer = new ByteWriter().text(group, GROUP_BYTES, 'group');
  for (const { address, port } of servers) {
    writer.text(address, QUERY_IP_BYTES[width], 'ip').i64(port);
  }
  return writer;
}

/**
 * A length that both widths divide means wide entries: as narrow ones it would be
 * more servers than a group may have.
 */
function readTargets(reader: ByteReader, tailBytes: number): FetchTargets {
  const listBytes = reader.remaining - GROUP_BYTES - tailBytes;
  const narrow = QUERY_IP_BYTES.narrow + 8;
  const wide = QUERY_IP_BYTES.wide + 8;
  const isNarrow = listBytes % narrow === 0 && listBytes / narrow <= MAX_GROUP_SERVERS;
  if (listBytes < 0 || (!isNarrow && listBytes % wide !== 0)) {
    throw new ProtocolError(`a tracker reply with a list of ${listBytes} bytes`);
  }
  const ipBytes = QUERY_IP_BYTES[isNarrow ? 'narrow' : 'wide'];
  const group = reader.text(GROUP_BYTES, 'group');
  const servers: ServerAddress[] = [];
  while (reader.remaining > tailBytes) {
    const address = reader.text(ipBytes, 'ip');
    servers.push({ address, port: readPort(reader) });
  }
  return { group, servers };
}

function readPort(reader: ByteReader): number {
  const port = reader.size('port');
  if (port < 1 || port > MAX_PORT) throw new ProtocolError(`port ${port} in a tracker reply`);
  return port;
}

function target(value: FetchTarget, width: IpWidth): ByteWriter {
  return new ByteWriter()
    .text(value.group, GROUP_BYTES, 'group')
    .text(value.address, QUERY_IP_BYTES[width], 'ip')
    .i64(value.port);
}

function readTarget(reader: ByteReader, length: number, tailBytes: number): FetchTarget {
  const ipBytes = length - GROUP_BYTES - tailBytes;
  if (ipBytes !== QUERY_IP_BYTES.narrow && ipBytes !== QUERY_IP_BYTES.wide) {
    throw new ProtocolError(`a tracker reply of ${length} bytes`);
  }
  const group = reader.text(GROUP_BYTES, 'group');
  const address = reader.text(ipBytes, 'ip');
  return { group, address, port: readPort(reader) };
}
