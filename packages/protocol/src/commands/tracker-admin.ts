import { ProtocolError, readText } from '../bytes.js';
import { MAX_PORT, STORAGE_ID_BYTES } from '../constants.js';
import { type Codec, flag, i32, i64, lines, record, tail } from '../layout.js';
import { addressText, command, group, groupOnly, latin1, nothing } from './shared.js';
import { serverBrief } from './storage-tracker.js';

/** Administrative requests to a tracker: leader, status, ids, removal. */

/** `ip:port` */
export const getLeader = command('GET_LEADER', 95, nothing, latin1);

/** An empty id means every storage, or any. */
export const groupAndMaybeId = record({ group, id: tail(0, STORAGE_ID_BYTES - 1) });

export const deleteStorage = command(
  'DELETE_STORAGE',
  93,
  record({ group, id: tail(1, STORAGE_ID_BYTES - 1) }),
  nothing,
);

export const deleteGroup = command('DELETE_GROUP', 108, groupOnly, nothing);

/** Text up to its NUL. */
const terminated: Codec<string> = {
  encode: (id) => Buffer.from(`${id}\0`, 'latin1'),
  decode: (bytes) => readText({ bytes, at: 0 }, bytes.length, 'id'),
};

/**
 * With an empty id the tracker elects one; the reply is the trunk server's
 * id.
 */
export const setTrunkServer = command('SET_TRUNK_SERVER', 94, groupAndMaybeId, terminated);

export interface GroupAndHost {
  readonly group: string;
  readonly address: string;
  readonly port: number;
}

const groupAndText = record({ group, text: tail() });

/** `group str(16) | "ip:port" text`, an IPv6 address in brackets */
const groupAndHost: Codec<GroupAndHost> = {
  encode: ({ group, address, port }) =>
    groupAndText.encode({ group, text: addressText(address, port) }),
  decode(bytes) {
    const { group, text } = groupAndText.decode(bytes);
    const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s:]+)):(\d{1,5})$/.exec(text) ?? [];
    const [address, port] = [match[1] ?? match[2], Number(match[3])];
    if (address === undefined || port < 1 || port > MAX_PORT)
      throw new ProtocolError(`an address "${text}"`);
    return { group, address, port };
  },
};

export const getStorageStatus = command('GET_STATUS', 71, groupAndHost, serverBrief);

export const getServerId = command('GET_SERVER_ID', 70, groupAndHost, latin1);

export interface HostAndPort {
  /** Empty: the caller's own address. */
  readonly address: string;
  readonly port: number;
}

/** `[ip text |] port i32` */
const hostAndPort: Codec<HostAndPort> = {
  encode({ address, port }) {
    const bytes = Buffer.alloc(address.length + 4);
    bytes.write(address, 'latin1');
    bytes.writeInt32BE(port, address.length);
    return bytes;
  },
  decode(bytes) {
    const at = bytes.length - 4;
    if (at < 0) throw new ProtocolError(`an address of ${bytes.length} bytes`);
    return { address: bytes.toString('latin1', 0, at), port: bytes.readInt32BE(at) };
  },
};

/** The group of a storage, in clusters with storage ids. */
export const getGroupName = command('GET_GROUP_NAME', 109, hostAndPort, groupOnly);

const storageIdsRequest = record(
  {
    start: i32,
    /** False: status 95 if the cluster does not use storage ids. */
    allowEmpty: flag,
  },
  'FETCH_STORAGE_IDS',
);

const storageIdsReply = record({
  total: i32,
  /** `id group ip[,ip2][:port][ rw=mode]` */
  lines: lines(i32),
});

export const fetchStorageIds = command('FETCH_STORAGE_IDS', 69, storageIdsRequest, storageIdsReply);

const trackerStatus = record({ isLeader: flag, runningSeconds: i64, restartSeconds: i64 });

export const trackerGetStatus = command('TRACKER_GET_STATUS', 64, nothing, trackerStatus);
