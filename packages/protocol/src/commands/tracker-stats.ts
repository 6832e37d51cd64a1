import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command } from '../command.js';
import { CommandCode, GROUP_WIDE_BYTES, STORAGE_ID_BYTES, VERSION_BYTES } from '../constants.js';

/** How trackers, storages and store paths are, as a tracker knows it. */

/** Width of a text `ip:port`. */
const HOST_BYTES = 52;

/** Three counts of a daemon's connections. */
export interface ConnectionCounts {
  readonly allocated: number;
  readonly current: number;
  readonly max: number;
}

/** `allocated i32 | current i32 | max i32 | version str(8) | up time i64 | heartbeat i64` */
function writeDaemon(writer: ByteWriter, daemon: DaemonStat): void {
  const { allocated, current, max } = daemon.connections;
  writer
    .i32(allocated)
    .i32(current)
    .i32(max)
    .text(daemon.version, VERSION_BYTES, 'version')
    .i64(daemon.startedAtSeconds)
    .i64(daemon.heardAtSeconds);
}

function readDaemon(reader: ByteReader): DaemonStat {
  const allocated = reader.i32('allocated');
  const current = reader.i32('current');
  return {
    connections: { allocated, current, max: reader.i32('max') },
    version: reader.text(VERSION_BYTES, 'version'),
    startedAtSeconds: reader.i64('up time'),
    heardAtSeconds: reader.i64('heartbeat'),
  };
}

function readRecords<Item>(reader: ByteReader, count: number, read: () => Item): Item[] {
  const items: Item[] = [];
  for (let index = 0; index < count; index++) items.push(read());
  reader.end('a list');
  return items;
}

/** Only what is named counts. */
export interface TrackerFilter {
  readonly active?: boolean;
  readonly leader?: boolean;
}

/** What a record says of any daemon, behind what is of its kind. */
interface DaemonStat {
  readonly connections: ConnectionCounts;
  readonly version: string;
  readonly startedAtSeconds: number;
  readonly heardAtSeconds: number;
}

export interface TrackerStat extends DaemonStat {
  /** `ip:port` */
  readonly host: string;
  readonly isLeader: boolean;
  readonly isActive: boolean;
}

/** `filter_by u8 (1 active, 2 leader) | is_active u8 | is_leader u8` */
const trackerFilter: Codec<TrackerFilter> = {
  encode: ({ active, leader }) =>
    Buffer.from([
      (active === undefined ? 0 : 1) | (leader === undefined ? 0 : 2),
      Number(active ?? 0),
      Number(leader ?? 0),
    ]),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const by = reader.u8('filter');
    const active = reader.u8('is_active') !== 0;
    const leader = reader.u8('is_leader') !== 0;
    reader.end('TRACKER_CLUSTER_STAT');
    return { ...(by & 1 ? { active } : {}), ...(by & 2 ? { leader } : {}) };
  },
};

/** `count u8`, then records of 90 bytes */
const trackerStats: Codec<readonly TrackerStat[]> = {
  encode(trackers) {
    const writer = new ByteWriter().u8(trackers.length);
    for (const each of trackers) {
      writer
        .text(each.host, HOST_BYTES, 'host')
        .u8(Number(each.isLeader))
        .u8(Number(each.isActive));
      writeDaemon(writer, each);
    }
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    return readRecords(reader, reader.u8('count'), () => ({
      host: reader.text(HOST_BYTES, 'host'),
      isLeader: reader.u8('leader') !== 0,
      isActive: reader.u8('active') !== 0,
      ...readDaemon(reader),
    }));
  },
};

/** TRACKER_CLUSTER_STAT (96) */
export const trackerClusterStat: Command<TrackerFilter, readonly TrackerStat[]> = {
  name: 'TRACKER_CLUSTER_STAT',
  code: CommandCode.trackerClusterStat,
  request: trackerFilter,
  reply: trackerStats,
};

export interface StorageFilter {
  readonly trunkServer?: boolean;
  readonly status?: { readonly equals: boolean; readonly value: number };
}

export interface StorageStat extends DaemonStat {
  readonly id: string;
  /** `ip:port` */
  readonly host: string;
  readonly isTrunkServer: boolean;
  readonly status: number;
}

export interface StorageStats {
  readonly usesStorageIds: boolean;
  readonly usesTrunkFiles: boolean;
  readonly storages: readonly StorageStat[];
}

const EQUALS = '='.charCodeAt(0);
const DIFFERS = '!'.charCodeAt(0);

/** `filter_by u8 (1 trunk server, 2 status) | op u8 | status u8 | is_trunk u8` */
const storageFilter: Codec<StorageFilter> = {
  encode: ({ trunkServer, status }) =>
    Buffer.from([
      (trunkServer === undefined ? 0 : 1) | (status === undefined ? 0 : 2),
      status === undefined ? 0 : status.equals ? EQUALS : DIFFERS,
      status?.value ?? 0,
      Number(trunkServer ?? 0),
    ]),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const by = reader.u8('filter');
    const equals = reader.u8('op') !== DIFFERS;
    const value = reader.u8('status');
    const trunkServer = reader.u8('is_trunk') !== 0;
    reader.end('STORAGE_CLUSTER_STAT');
    return { ...(by & 1 ? { trunkServer } : {}), ...(by & 2 ? { status: { equals, value } } : {}) };
  },
};

/** `use_storage_id u8 | use_trunk_file u8 | count i32`, then records of 106 bytes */
const storageStats: Codec<StorageStats> = {
  encode({ usesStorageIds, usesTrunkFiles, storages }) {
    const writer = new ByteWriter()
      .u8(Number(usesStorageIds))
      .u8(Number(usesTrunkFiles))
      .i32(storages.length);
    for (const each of storages) {
      writer
        .text(each.id, STORAGE_ID_BYTES, 'id')
        .text(each.host, HOST_BYTES, 'host')
        .u8(Number(each.isTrunkServer))
        .u8(each.status);
      writeDaemon(writer, each);
    }
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const usesStorageIds = reader.u8('use_storage_id') !== 0;
    const usesTrunkFiles = reader.u8('use_trunk_file') !== 0;
    const storages = readRecords(reader, reader.i32('count'), () => ({
      id: reader.text(STORAGE_ID_BYTES, 'id'),
      host: reader.text(HOST_BYTES, 'host'),
      isTrunkServer: reader.u8('trunk') !== 0,
      status: reader.u8('status'),
      ...readDaemon(reader),
    }));
    return { usesStorageIds, usesTrunkFiles, storages };
  },
};

/** STORAGE_CLUSTER_STAT (97) */
export const storageClusterStat: Command<StorageFilter, StorageStats> = {
  name: 'STORAGE_CLUSTER_STAT',
  code: CommandCode.storageClusterStat,
  request: storageFilter,
  reply: storageStats,
};

export interface VolumeFilter {
  readonly disk?: boolean;
  readonly trunk?: boolean;
  readonly space?: boolean;
}

export interface Volume {
  readonly group: string;
  readonly totalMegabytes: number;
  readonly freeMegabytes: number;
  readonly reservedMegabytes: number;
  readonly availableMegabytes: number;
  readonly trunkFreeMegabytes: number;
  readonly isDiskAvailable: boolean;
  readonly isTrunkAvailable: boolean;
}

export interface Volumes {
  readonly usesTrunkFiles: boolean;
  readonly volumes: readonly Volume[];
}

/** `filter_by u8 (1 disk, 2 trunk, 4 space) | is_disk u8 | is_trunk u8 | is_space u8` */
const volumeFilter: Codec<VolumeFilter> = {
  encode: ({ disk, trunk, space }) =>
    Buffer.from([
      (disk === undefined ? 0 : 1) | (trunk === undefined ? 0 : 2) | (space === undefined ? 0 : 4),
      Number(disk ?? 0),
      Number(trunk ?? 0),
      Number(space ?? 0),
    ]),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const by = reader.u8('filter');
    const disk = reader.u8('is_disk') !== 0;
    const trunk = reader.u8('is_trunk') !== 0;
    const space = reader.u8('is_space') !== 0;
    reader.end('STORAGE_VOLUMN_STAT');
    return {
      ...(by & 1 ? { disk } : {}),
      ...(by & 2 ? { trunk } : {}),
      ...(by & 4 ? { space } : {}),
    };
  },
};

/** `use_trunk u8 | count i32`, then records of 59 bytes */
const volumes: Codec<Volumes> = {
  encode(value) {
    const writer = new ByteWriter().u8(Number(value.usesTrunkFiles)).i32(value.volumes.length);
    for (const each of value.volumes) {
      writer
        .text(each.group, GROUP_WIDE_BYTES, 'group')
        .i64(each.totalMegabytes)
        .i64(each.freeMegabytes)
        .i64(each.reservedMegabytes)
        .i64(each.availableMegabytes)
        .i64(each.trunkFreeMegabytes)
        .u8(Number(each.isDiskAvailable))
        .u8(Number(each.isTrunkAvailable));
    }
    return writer.toBuffer();
  },
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const usesTrunkFiles = reader.u8('use_trunk') !== 0;
    const list = readRecords(reader, reader.i32('count'), () => ({
      group: reader.text(GROUP_WIDE_BYTES, 'group'),
      totalMegabytes: reader.i64('total'),
      freeMegabytes: reader.i64('free'),
      reservedMegabytes: reader.i64('reserved'),
      availableMegabytes: reader.i64('available'),
      trunkFreeMegabytes: reader.i64('trunk free'),
      isDiskAvailable: reader.u8('disk') !== 0,
      isTrunkAvailable: reader.u8('trunk') !== 0,
    }));
    return { usesTrunkFiles, volumes: list };
  },
};

/** STORAGE_VOLUMN_STAT (98); the name is spelt as in FastDFS. */
export const storageVolumeStat: Command<VolumeFilter, Volumes> = {
  name: 'STORAGE_VOLUMN_STAT',
  code: CommandCode.storageVolumeStat,
  request: volumeFilter,
  reply: volumes,
};
