import type { GroupRecord, StorageRecord, StorageStat, Volume } from '@stevedore/protocol';
import { addressText } from '@stevedore/wire';
import type { Group } from './group.js';
import type { Member } from './member.js';

/** Groups and storages as the lists of a tracker show them. */

export function groupRecord(group: Group, reservedMegabytes: number, nowMs: number): GroupRecord {
  const ports = new Set(group.members.map((member) => member.port));
  const paths = group.members.map((member) => member.joinRequest?.storePathCount ?? 0);
  return {
    name: group.name,
    ...group.room(nowMs),
    reservedMegabytes,
    trunkFreeMegabytes: 0,
    storageCount: group.members.length,
    storagePort: ports.size === 1 ? [...ports][0]! : -1,
    readableCount: group.readable(nowMs).length,
    writableCount: group.writable(nowMs).length,
    currentWriteServer: group.currentWriteServer(nowMs),
    storePathCount: Math.min(...paths),
    subdirectoriesPerPath: group.members[0]?.joinRequest?.subdirectoriesPerPath ?? 0,
    currentTrunkFileId: -1,
  };
}

export function storageRecord(
  group: Group,
  member: Member,
  reservedMegabytes: number,
  nowMs: number,
): StorageRecord {
  const { joinRequest, usage } = member;
  return {
    status: group.statusOf(member, nowMs),
    readWriteMode: member.readWriteMode,
    id: member.id,
    address: member.address,
    sourceId: member.syncSource?.sourceId ?? '',
    version: joinRequest?.version ?? '',
    joinedAtSeconds: joinRequest?.joinedAtSeconds ?? 0,
    startedAtSeconds: member.connected ? (joinRequest?.startedAtSeconds ?? 0) : 0,
    totalMegabytes: usage.reduce((sum, path) => sum + path.totalMegabytes, 0),
    freeMegabytes: usage.reduce((sum, path) => sum + path.freeMegabytes, 0),
    reservedMegabytes,
    uploadPriority: joinRequest?.uploadPriority ?? 0,
    storePathCount: joinRequest?.storePathCount ?? 0,
    subdirectoriesPerPath: joinRequest?.subdirectoriesPerPath ?? 0,
    currentWritePath: member.currentWritePath,
    storagePort: member.port,
    statistics: member.statistics,
    isTrunkServer: false,
  };
}

export function storageStat(group: Group, member: Member, nowMs: number): StorageStat {
  return {
    id: member.id,
    host: addressText(member.address, member.port),
    isTrunkServer: false,
    status: group.statusOf(member, nowMs),
    connections: member.statistics.connections,
    version: member.joinRequest?.version ?? '',
    startedAtSeconds: member.connected ? (member.joinRequest?.startedAtSeconds ?? 0) : 0,
    heardAtSeconds: member.heardAtSeconds,
  };
}

export function volume(group: Group, reservedMegabytes: number, nowMs: number): Volume {
  const { totalMegabytes, freeMegabytes } = group.room(nowMs);
  const availableMegabytes = Math.max(freeMegabytes - reservedMegabytes, 0);
  return {
    group: group.name,
    totalMegabytes,
    freeMegabytes,
    reservedMegabytes,
    availableMegabytes,
    trunkFreeMegabytes: 0,
    isDiskAvailable: availableMegabytes > 0,
    isTrunkAvailable: false,
  };
}
