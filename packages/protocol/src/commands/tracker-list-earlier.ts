import { ByteReader } from '../bytes.js';
import { GROUP_WIDE_BYTES, IP_BYTES, STORAGE_ID_BYTES } from '../constants.js';
import { decodeStatistics, STATISTICS_BYTES } from './statistics.js';
import type { GroupRecord, StorageRecord } from './tracker-records.js';

/**
 * Reads the group and storage records of servers before 6.15, which are told apart by
 * their length. Written nowhere: our own daemons answer with the present layouts.
 */

/** What the domain name of a storage took, up to 6.12. */
const DOMAIN_BYTES = 128;
/** A storage that says nothing of it is read from and written to. */
const READ_AND_WRITE = 6;

type GroupField = Exclude<keyof GroupRecord, 'name'> | 'httpPort' | 'activeCount';

const GROUP_HEAD: readonly GroupField[] = [
  'totalMegabytes',
  'freeMegabytes',
  'trunkFreeMegabytes',
  'storageCount',
  'storagePort',
];
const GROUP_TAIL: readonly GroupField[] = [
  'currentWriteServer',
  'storePathCount',
  'subdirectoriesPerPath',
  'currentTrunkFileId',
];
/** Up to 6.12. */
const GROUP_WITH_HTTP: readonly GroupField[] = [
  ...GROUP_HEAD,
  'httpPort',
  'activeCount',
  ...GROUP_TAIL,
];
/** 6.13.0. */
const GROUP_WITH_MODES: readonly GroupField[] = [
  ...GROUP_HEAD,
  'readableCount',
  'writableCount',
  ...GROUP_TAIL,
];
const GROUP_RECORD_BYTES = GROUP_WIDE_BYTES + GROUP_WITH_HTTP.length * 8;

/**
 * n records of 105 bytes: `name str(17)`, then eleven i64. Two layouts have this
 * length; they differ in the seventh and eighth number, a port and a count or two
 * counts. Undefined for another length.
 */
export function decodeEarlierGroups(bytes: Buffer): readonly GroupRecord[] | undefined {
  if (bytes.length % GROUP_RECORD_BYTES !== 0) return undefined;
  const withHttp = readGroups(bytes, GROUP_WITH_HTTP);
  const fields = withHttp.some(hasHttpPort) ? GROUP_WITH_HTTP : GROUP_WITH_MODES;
  return readGroups(bytes, fields).map(({ name, numbers }) => {
    const { activeCount, httpPort: _, ...rest } = numbers;
    const counts =
      activeCount === undefined ? {} : { readableCount: activeCount, writableCount: activeCount };
    return { name, reservedMegabytes: 0, ...rest, ...counts } as GroupRecord;
  });
}

interface GroupNumbers {
  readonly name: string;
  readonly numbers: Readonly<Partial<Record<GroupField, number>>>;
}

function readGroups(bytes: Buffer, fields: readonly GroupField[]): readonly GroupNumbers[] {
  const reader = new ByteReader(bytes);
  const groups: GroupNumbers[] = [];
  while (reader.remaining > 0) {
    const name = reader.text(GROUP_WIDE_BYTES, 'group');
    const numbers = Object.fromEntries(fields.map((field) => [field, reader.i64(field)]));
    groups.push({ name, numbers });
  }
  return groups;
}

/**
 * A count of readable storages is never above that of all; a port is, or it is 0 and
 * then some storages would be writable and none readable.
 */
function hasHttpPort({ numbers }: GroupNumbers): boolean {
  const { httpPort = 0, activeCount = 0, storageCount = 0 } = numbers;
  return httpPort > storageCount || (httpPort === 0 && activeCount > 0);
}

interface StorageLayout {
  readonly hasMode: boolean;
  readonly ipBytes: number;
  readonly domainBytes: number;
  readonly versionBytes: number;
  readonly numbers: readonly string[];
}

const NUMBERS_OF_6_13 = [
  'joinedAtSeconds',
  'startedAtSeconds',
  'totalMegabytes',
  'freeMegabytes',
  'uploadPriority',
  'storePathCount',
  'subdirectoriesPerPath',
  'currentWritePath',
  'storagePort',
] as const satisfies readonly (keyof StorageRecord)[];

const WITH_HTTP = {
  hasMode: false,
  domainBytes: DOMAIN_BYTES,
  numbers: [...NUMBERS_OF_6_13, 'httpPort'],
};

const STORAGE_LAYOUTS: readonly StorageLayout[] = [
  // 6.13.0: 509 bytes
  {
    hasMode: true,
    ipBytes: IP_BYTES.wide,
    domainBytes: 0,
    versionBytes: 8,
    numbers: NUMBERS_OF_6_13,
  },
  // 6.12: 644 bytes
  { ...WITH_HTTP, ipBytes: IP_BYTES.wide, versionBytes: 8 },
  // 6.11: 642 bytes
  { ...WITH_HTTP, ipBytes: IP_BYTES.wide, versionBytes: 6 },
  // Before: 612 bytes
  { ...WITH_HTTP, ipBytes: IP_BYTES.narrow, versionBytes: 6 },
];

/**
 * n records of 509, 644, 642 or 612 bytes: `status u8 [| rw_mode u8] | id str(16) |
 * ip str(16|46) [| domain str(128)] | src_id str(16) | version str(6|8)`, nine i64
 * [, http_port i64], the statistics block, `if_trunk_server u8`. Undefined for another
 * length.
 */
export function decodeEarlierStorages(bytes: Buffer): readonly StorageRecord[] | undefined {
  const layout = STORAGE_LAYOUTS.find((each) => bytes.length % storageBytes(each) === 0);
  if (!layout) return undefined;
  const reader = new ByteReader(bytes);
  const storages: StorageRecord[] = [];
  while (reader.remaining > 0) storages.push(readStorage(reader, layout));
  return storages;
}

function storageBytes(layout: StorageLayout): number {
  const { hasMode, ipBytes, domainBytes, versionBytes, numbers } = layout;
  const texts = STORAGE_ID_BYTES * 2 + ipBytes + domainBytes + versionBytes;
  return (hasMode ? 2 : 1) + texts + numbers.length * 8 + STATISTICS_BYTES + 1;
}

function readStorage(reader: ByteReader, layout: StorageLayout): StorageRecord {
  const status = reader.u8('status');
  const readWriteMode = layout.hasMode ? reader.u8('rw mode') : READ_AND_WRITE;
  const id = reader.text(STORAGE_ID_BYTES, 'id');
  const address = reader.text(layout.ipBytes, 'ip');
  if (layout.domainBytes > 0) reader.text(layout.domainBytes, 'domain name');
  const sourceId = reader.text(STORAGE_ID_BYTES, 'src id');
  const version = reader.text(layout.versionBytes, 'version');
  const numbers = Object.fromEntries(layout.numbers.map((name) => [name, reader.i64(name)]));
  const { httpPort: _, ...known } = numbers;
  const statistics = decodeStatistics(reader.bytes(STATISTICS_BYTES, 'statistics'));
  const isTrunkServer = reader.u8('trunk server') === 1;
  return {
    status,
    readWriteMode,
    id,
    address,
    sourceId,
    version,
    reservedMegabytes: 0,
    ...known,
    statistics,
    isTrunkServer,
  } as StorageRecord;
}
