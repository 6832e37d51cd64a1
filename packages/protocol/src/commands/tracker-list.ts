import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command } from '../command.js';
import {
  CommandCode,
  GROUP_BYTES,
  GROUP_WIDE_BYTES,
  IP_BYTES,
  type IpWidth,
  STORAGE_ID_BYTES,
  VERSION_BYTES,
} from '../constants.js';
import { ProtocolError } from '../errors.js';
import { groupOnly, nothing } from './shared.js';
import { decodeStatistics, encodeStatistics, STATISTICS_BYTES } from './statistics.js';
import { decodeEarlierGroups, decodeEarlierStorages } from './tracker-list-earlier.js';
import type { GroupRecord, StorageRecord } from './tracker-records.js';

/**
 * What a tracker tells about its groups and their storages. Records are written as
 * servers from 6.15 on write them, and read in the layouts of earlier ones too.
 */

const GROUP_NUMBERS = [
  'totalMegabytes',
  'freeMegabytes',
  'reservedMegabytes',
  'trunkFreeMegabytes',
  'storageCount',
  'storagePort',
  'readableCount',
  'writableCount',
  'currentWriteServer',
  'storePathCount',
  'subdirectoriesPerPath',
  'currentTrunkFileId',
] as const satisfies readonly (keyof GroupRecord)[];

const GROUP_RECORD_BYTES = GROUP_WIDE_BYTES + GROUP_NUMBERS.length * 8;

/** n records of 113 bytes: `name str(17)`, then twelve i64 in the order of GROUP_NUMBERS */
const groupRecords: Codec<readonly GroupRecord[]> = {
  encode(groups) {
    const writer = new ByteWriter();
    for (const group of groups) {
      writer.text(group.name, GROUP_WIDE_BYTES, 'group');
      for (const field of GROUP_NUMBERS) writer.i64(group[field]);
    }
    return writer.toBuffer();
  },
  decode(bytes) {
    if (bytes.length % GROUP_RECORD_BYTES !== 0) {
      const earlier = decodeEarlierGroups(bytes);
      if (!earlier) throw new ProtocolError(`a group list of ${bytes.length} bytes`);
      return earlier;
    }
    const reader = new ByteReader(bytes);
    const groups: GroupRecord[] = [];
    while (reader.remaining > 0) {
      const name = reader.text(GROUP_WIDE_BYTES, 'group');
      const numbers = GROUP_NUMBERS.map((field) => [field, reader.i64(field)]);
      groups.push({ name, ...Object.fromEntries(numbers) } as GroupRecord);
    }
    return groups;
  },
};

/** LIST_ALL_GROUPS (91) */
export const listAllGroups: Command<undefined, readonly GroupRecord[]> = {
  name: 'LIST_ALL_GROUPS',
  code: CommandCode.listAllGroups,
  request: nothing,
  reply: groupRecords,
};

/** LIST_ONE_GROUP (90): the reply has one record. */
export const listOneGroup: Command<{ readonly group: string }, readonly GroupRecord[]> = {
  name: 'LIST_ONE_GROUP',
  code: CommandCode.listOneGroup,
  request: groupOnly,
  reply: groupRecords,
};

const STORAGE_NUMBERS = [
  'joinedAtSeconds',
  'startedAtSeconds',
  'totalMegabytes',
  'freeMegabytes',
  'reservedMegabytes',
  'uploadPriority',
  'storePathCount',
  'subdirectoriesPerPath',
  'currentWritePath',
  'storagePort',
] as const satisfies readonly (keyof StorageRecord)[];

function storageRecordBytes(width: IpWidth): number {
  const texts = STORAGE_ID_BYTES + IP_BYTES[width] + STORAGE_ID_BYTES + VERSION_BYTES;
  return 2 + texts + STORAGE_NUMBERS.length * 8 + STATISTICS_BYTES + 1;
}

/**
 * n records of 487 or 517 bytes: `status u8 | rw_mode u8 | id str(16) | ip str(16|46)
 * | src_id str(16) | version str(8)`, ten i64 in the order of STORAGE_NUMBERS, the
 * statistics block, `if_trunk_server u8`
 */
const storageRecords: Codec<readonly StorageRecord[]> = {
  encode(storages, width = 'narrow') {
    const writer = new ByteWriter();
    for (const storage of storages) writeStorage(writer, storage, width);
    return writer.toBuffer();
  },
  decode(bytes) {
    const width = (['narrow', 'wide'] as const).find(
      (candidate) => bytes.length % storageRecordBytes(candidate) === 0,
    );
    if (width === undefined) {
      const earlier = decodeEarlierStorages(bytes);
      if (!earlier) throw new ProtocolError(`a storage list of ${bytes.length} bytes`);
      return earlier;
    }
    const reader = new ByteReader(bytes);
    const storages: StorageRecord[] = [];
    while (reader.remaining > 0) storages.push(readStorage(reader, width));
    return storages;
  },
};

export interface ListStorageRequest {
  readonly group: string;
  /** Empty: all of the group. */
  readonly id: string;
}

/** `group str(16) [| id text, 1 to 15 bytes]` */
const listStorageRequest: Codec<ListStorageRequest> = {
  encode: ({ group, id }) =>
    new ByteWriter().text(group, GROUP_BYTES, 'group').restText(id).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const group = reader.text(GROUP_BYTES, 'group');
    if (reader.remaining >= STORAGE_ID_BYTES) {
      throw new ProtocolError(`a storage id of ${reader.remaining} bytes`);
    }
    return { group, id: reader.restText() };
  },
};

/** LIST_STORAGE (92) */
export const listStorage: Command<ListStorageRequest, readonly StorageRecord[]> = {
  name: 'LIST_STORAGE',
  code: CommandCode.listStorage,
  request: listStorageRequest,
  reply: storageRecords,
};

function writeStorage(writer: ByteWriter, storage: StorageRecord, width: IpWidth): void {
  writer
    .u8(storage.status)
    .u8(storage.readWriteMode)
    .text(storage.id, STORAGE_ID_BYTES, 'id')
    .text(storage.address, IP_BYTES[width], 'ip')
    .text(storage.sourceId, STORAGE_ID_BYTES, 'src id')
    .text(storage.version, VERSION_BYTES, 'version');
  for (const field of STORAGE_NUMBERS) writer.i64(storage[field]);
  writer.raw(encodeStatistics(storage.statistics)).u8(storage.isTrunkServer ? 1 : 0);
}

function readStorage(reader: ByteReader, width: IpWidth): StorageRecord {
  const head = {
    status: reader.u8('status'),
    readWriteMode: reader.u8('rw mode'),
    id: reader.text(STORAGE_ID_BYTES, 'id'),
    address: reader.text(IP_BYTES[width], 'ip'),
    sourceId: reader.text(STORAGE_ID_BYTES, 'src id'),
    version: reader.text(VERSION_BYTES, 'version'),
  };
  const numbers = STORAGE_NUMBERS.map((field) => [field, reader.i64(field)]);
  const statistics = decodeStatistics(reader.bytes(STATISTICS_BYTES, 'statistics'));
  const isTrunkServer = reader.u8('trunk server') === 1;
  return { ...head, ...Object.fromEntries(numbers), statistics, isTrunkServer } as StorageRecord;
}
