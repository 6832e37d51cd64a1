import { type ByteReader, ByteWriter, ProtocolError, readU8, writeU8 } from '../bytes.js';
import {
  type IpWidth,
  MAX_GROUP_SERVERS,
  MAX_NAME_BYTES,
  MIN_NAME_BYTES,
  QUERY_IP_BYTES,
} from '../constants.js';
import { address, type BodyOf, type Codec, port, record, tail, u8 } from '../layout.js';
import { command, group, groupOnly, nothing } from './shared.js';

/** Queries for the storage to which a file is uploaded, or from which it is read or changed. */

const server = { address: address(QUERY_IP_BYTES), port };

const fetchTarget = record({ group, ...server }, 'a tracker reply');
export type FetchTarget = BodyOf<typeof fetchTarget>;

/** A storage and the store path index for the upload. */
const storeTarget = record({ group, ...server, storePathIndex: u8 }, 'a tracker reply');
export type StoreTarget = BodyOf<typeof storeTarget>;

/** As `fileName`, with the lengths a tracker accepts. */
const queriedName = record({ group, name: tail(MIN_NAME_BYTES, MAX_NAME_BYTES) });

/** A storage of any group for an upload. */
export const queryStore = command('QUERY_STORE_WITHOUT_GROUP_ONE', 101, nothing, storeTarget);

/** A storage of the named group for an upload. */
export const queryStoreInGroup = command('QUERY_STORE_WITH_GROUP_ONE', 104, groupOnly, storeTarget);

/** A storage to read the file from. */
export const queryFetch = command('QUERY_FETCH_ONE', 102, queriedName, fetchTarget);

/** The storage on which the file can be changed or deleted. */
export const queryUpdate = command('QUERY_UPDATE', 103, queriedName, fetchTarget);

const serverAddress = record(server);
export type ServerAddress = BodyOf<typeof serverAddress>;

/** Every storage that has the file. */
export interface FetchTargets {
  readonly group: string;
  readonly servers: readonly ServerAddress[];
}

/** All storages of one group that an upload may go to. */
export interface StoreTargets extends FetchTargets {
  readonly storePathIndex: number;
}

/** `group str(16) | n x { ip (15|45) | port i64 } | store_path_index u8` */
const storeTargets: Codec<StoreTargets> = {
  encode(value, width) {
    const writer = targets(value, width);
    writeU8(writer, value.storePathIndex);
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = { bytes, at: 0 };
    const where = readTargets(reader, 1);
    return { ...where, storePathIndex: readU8(reader, 'store_path_index') };
  },
};

/** `group str(16) | n x { ip (15|45) | port i64 }` */
const fetchTargets: Codec<FetchTargets> = {
  encode: (value, width) => targets(value, width).toBuffer(),
  decode: (bytes) => readTargets({ bytes, at: 0 }, 0),
};

export const queryStoreAll = command('QUERY_STORE_WITHOUT_GROUP_ALL', 106, nothing, storeTargets);

export const queryStoreInGroupAll = command(
  'QUERY_STORE_WITH_GROUP_ALL',
  107,
  groupOnly,
  storeTargets,
);

/** Every storage from which the file can be read. */
export const queryFetchAll = command('QUERY_FETCH_ALL', 105, queriedName, fetchTargets);

function targets(value: FetchTargets, width: IpWidth = 'narrow'): ByteWriter {
  const writer = new ByteWriter();
  groupOnly.write(writer, value, 'group', width);
  for (const each of value.servers) serverAddress.write(writer, each, 'server', width);
  return writer;
}

/**
 * If both widths divide the length, the entries are wide: narrow ones would be more servers than a
 * group can have.
 */
function readTargets(reader: ByteReader, tailBytes: number): FetchTargets {
  const { narrow, wide } = serverAddress.bytes;
  const listBytes = reader.bytes.length - reader.at - groupOnly.bytes.wide - tailBytes;
  const isNarrow = listBytes % narrow === 0 && listBytes / narrow <= MAX_GROUP_SERVERS;
  if (listBytes < 0 || (!isNarrow && listBytes % wide !== 0)) {
    throw new ProtocolError(`a tracker reply with a list of ${listBytes} bytes`);
  }
  const width = isNarrow ? 'narrow' : 'wide';
  const { group } = groupOnly.read(reader, 'group', width, 0);
  const servers: ServerAddress[] = [];
  while (reader.at < reader.bytes.length - tailBytes) {
    servers.push(serverAddress.read(reader, 'server', width, 0));
  }
  return { group, servers };
}
