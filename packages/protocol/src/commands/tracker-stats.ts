import { ProtocolError, readU8 } from '../bytes.js';
import { GROUP_WIDE_BYTES, VERSION_BYTES } from '../constants.js';
import {
  type BodyOf,
  type Codec,
  flag,
  i32,
  i64,
  many,
  only,
  record,
  text,
  u8,
} from '../layout.js';
import { command } from './shared.js';
import { connectionCounts, storageId } from './storage-tracker.js';

/** Status of trackers, storages and store paths, as a tracker knows it. */

export type ConnectionCounts = BodyOf<typeof connectionCounts>;

/** `ip:port` */
const host = text(52);

/** The fields that every daemon's record ends with. */
const daemon = {
  connections: connectionCounts,
  version: text(VERSION_BYTES),
  startedAtSeconds: i64,
  heardAtSeconds: i64,
};

/** A filter by booleans; absent ones do not count. `filter_by u8`, a bit each, then `u8` each. */
function filter<Name extends string>(
  names: readonly Name[],
  what: string,
): Codec<{ readonly [Each in Name]?: boolean }> {
  return {
    encode(value) {
      const by = names.reduce(
        (sum, name, at) => sum | (value[name] === undefined ? 0 : 1 << at),
        0,
      );
      return Buffer.from([by, ...names.map((name) => Number(value[name] ?? false))]);
    },
    decode(bytes) {
      const reader = { bytes, at: 0 };
      const by = readU8(reader, 'filter');
      const value: { [Each in Name]?: boolean } = {};
      for (const [at, name] of names.entries()) {
        const wanted = readU8(reader, name) !== 0;
        if (by & (1 << at)) value[name] = wanted;
      }
      const left = bytes.length - reader.at;
      if (left === 0) return value;
      throw new ProtocolError(`${what} has ${left} bytes too many`);
    },
  };
}

const trackerFilter = filter(['active', 'leader'], 'TRACKER_CLUSTER_STAT');

const trackerStat = record({ host, isLeader: flag, isActive: flag, ...daemon });

export const trackerClusterStat = command(
  'TRACKER_CLUSTER_STAT',
  96,
  trackerFilter,
  only(many(u8, trackerStat), 'a list'),
);

export interface StorageFilter {
  readonly trunkServer?: boolean;
  readonly status?: { readonly equals: boolean; readonly value: number };
}

const EQUALS = '='.charCodeAt(0);
const DIFFERS = '!'.charCodeAt(0);

const filterFields = record(
  { by: u8, op: u8, value: u8, trunkServer: flag },
  'STORAGE_CLUSTER_STAT',
);

/** `filter_by u8 (1 trunk server, 2 status) | op u8 | status u8 | is_trunk u8` */
const storageFilter: Codec<StorageFilter> = {
  encode: ({ trunkServer, status }) =>
    filterFields.encode({
      by: (trunkServer === undefined ? 0 : 1) | (status === undefined ? 0 : 2),
      op: status === undefined ? 0 : status.equals ? EQUALS : DIFFERS,
      value: status?.value ?? 0,
      trunkServer: trunkServer ?? false,
    }),
  decode(bytes) {
    const { by, op, value, trunkServer } = filterFields.decode(bytes);
    const status = { equals: op !== DIFFERS, value };
    return { ...(by & 1 ? { trunkServer } : {}), ...(by & 2 ? { status } : {}) };
  },
};

const storageStat = record({ id: storageId, host, isTrunkServer: flag, status: u8, ...daemon });
export type StorageStat = BodyOf<typeof storageStat>;

const storageStats = record(
  { usesStorageIds: flag, usesTrunkFiles: flag, storages: many(i32, storageStat) },
  'a list',
);

export const storageClusterStat = command('STORAGE_CLUSTER_STAT', 97, storageFilter, storageStats);

const volumeFilter = filter(['disk', 'trunk', 'space'], 'STORAGE_VOLUMN_STAT');

const volume = record({
  group: text(GROUP_WIDE_BYTES),
  totalMegabytes: i64,
  freeMegabytes: i64,
  reservedMegabytes: i64,
  availableMegabytes: i64,
  trunkFreeMegabytes: i64,
  isDiskAvailable: flag,
  isTrunkAvailable: flag,
});
export type Volume = BodyOf<typeof volume>;

const volumes = record({ usesTrunkFiles: flag, volumes: many(i32, volume) }, 'a list');

/** STORAGE_VOLUMN_STAT (98); spelt as in FastDFS. */
export const storageVolumeStat = command('STORAGE_VOLUMN_STAT', 98, volumeFilter, volumes);
