import { ByteReader, ByteWriter } from '../bytes.js';
import { ProtocolError } from '../errors.js';

/**
 * The 348-byte statistics block that storages send with their beats and trackers
 * hand on in storage records: three i32 of connection counts, then 42 i64.
 */

export const STATISTICS_BYTES = 348;

const CONNECTIONS = ['allocated', 'current', 'max'] as const;

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

const TIMES = [
  'lastSourceUpdateSeconds',
  'lastSyncUpdateSeconds',
  'lastSyncedSeconds',
  'lastHeartBeatSeconds',
] as const;

export type CountedOperation = (typeof OPERATIONS)[number];

export interface OperationCount {
  readonly total: number;
  readonly success: number;
}

export interface StorageStatistics {
  readonly connections: Readonly<Record<(typeof CONNECTIONS)[number], number>>;
  readonly operations: Readonly<Record<CountedOperation, OperationCount>>;
  /** Unix seconds; 0 for never. */
  readonly times: Readonly<Record<(typeof TIMES)[number], number>>;
}

/** Nothing counted yet. */
export function emptyStatistics(): StorageStatistics {
  return decodeStatistics(Buffer.alloc(STATISTICS_BYTES));
}

export function encodeStatistics(statistics: StorageStatistics): Buffer {
  const writer = new ByteWriter();
  for (const name of CONNECTIONS) writer.i32(statistics.connections[name]);
  for (const name of OPERATIONS) {
    const { total, success } = statistics.operations[name];
    writer.i64(total).i64(success);
  }
  for (const name of TIMES) writer.i64(statistics.times[name]);
  return writer.toBuffer();
}

export function decodeStatistics(bytes: Buffer): StorageStatistics {
  if (bytes.length !== STATISTICS_BYTES) {
    throw new ProtocolError(`a statistics block of ${bytes.length} bytes`);
  }
  const reader = new ByteReader(bytes);
  const connections = CONNECTIONS.map((name) => [name, reader.i32(name)]);
  const operations = OPERATIONS.map((name) => {
    const total = reader.i64(name);
    return [name, { total, success: reader.i64(name) }];
  });
  const times = TIMES.map((name) => [name, reader.i64(name)]);
  return {
    connections: Object.fromEntries(connections),
    operations: Object.fromEntries(operations),
    times: Object.fromEntries(times),
  } as StorageStatistics;
}
