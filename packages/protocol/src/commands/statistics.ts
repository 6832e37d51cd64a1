import { type BodyOf, i32, i64, record } from '../layout.js';

/**
 * The 348-byte statistics block that storages send with their beats and trackers
 * hand on in storage records: three i32 of connection counts, then 42 i64.
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

/** Nothing counted yet. */
export function emptyStatistics(): StorageStatistics {
  return statistics.decode(Buffer.alloc(statistics.bytes.wide));
}
