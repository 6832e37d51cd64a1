import { chooseTarget, type ServerLoad } from '@stevedore/balance';
import {
  MAX_METADATA_SERVERS,
  type MetadataServerList,
  type MetadataServerLoad,
  type MetadataServerRecord,
  Status,
  StorageStatus,
  type TargetLease,
} from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import type { Cluster } from './cluster.js';

/**
 * The load of the metadata servers, as they report it, and who may give files to whom.
 * A server with files to move is lent a target for one interval, which is nobody else's
 * for so long, has room below its own mark, and has no files to move itself. The choice
 * is that of @stevedore/balance. Kept in memory: what is lost with it is one interval.
 */

/** A server that has not reported for so many of its intervals is no target. */
const SILENT_INTERVALS = 3;
const LEAST_SILENCE_MS = 1000;

interface Known {
  readonly record: MetadataServerRecord;
  readonly atMs: number;
}

interface Lease {
  readonly sourceKey: string;
  readonly targetKey: string;
  readonly untilMs: number;
}

export class MetadataServers {
  readonly #cluster: Cluster;
  readonly #known = new Map<string, Known>();
  #leases: readonly Lease[] = [];

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Takes the report of the storage at this address; status 13 if it is no member, 28 if there are too many. */
  report(load: MetadataServerLoad, address: string, nowMs: number): MetadataServerList {
    const member = this.#cluster.member(load.group, load.id);
    if (member.address !== address || member.port !== load.port) {
      throw new StatusError(Status.accessDenied, `${address} is not storage ${load.id}`);
    }
    this.#forgetSilent(nowMs);
    const key = keyOf(load);
    if (!this.#known.has(key) && this.#known.size >= MAX_METADATA_SERVERS) {
      throw new StatusError(Status.noSpace, 'too many metadata servers');
    }
    this.#known.set(key, { record: { ...load, host: address }, atMs: nowMs });
    const lease = this.#lend(load, key, nowMs);
    return { lease, servers: [...this.#known.values()].map(({ record }) => record) };
  }

  #lend(load: MetadataServerLoad, key: string, nowMs: number): TargetLease | undefined {
    this.#leases = this.#leases.filter(
      ({ sourceKey, untilMs }) => untilMs > nowMs && sourceKey !== key,
    );
    if (load.toMoveBytes <= 0) return undefined;
    const lent = new Set(this.#leases.map(({ targetKey }) => targetKey));
    const candidates = [...this.#known].filter(
      ([other, { record }]) =>
        record.group !== load.group &&
        record.toMoveBytes <= 0 &&
        !lent.has(other) &&
        this.#isActive(record, nowMs),
    );
    const assignment = chooseTarget(
      { id: key, totalLoadBytes: load.toMoveBytes },
      candidates.map(([id, { record }]) => serverLoad(id, record)),
    );
    if (!assignment) return undefined;
    const { targetId: targetKey, roomBytes } = assignment;
    const { group, id } = this.#known.get(targetKey)!.record;
    const lease = { sourceKey: key, targetKey, untilMs: nowMs + load.intervalMs };
    this.#leases = [...this.#leases, lease];
    return { group, id, roomBytes: Math.floor(roomBytes) };
  }

  #isActive({ group, id }: MetadataServerRecord, nowMs: number): boolean {
    const known = this.#cluster.group(group);
    const member = known.find(id);
    return member !== undefined && known.statusOf(member, nowMs) === StorageStatus.active;
  }

  #forgetSilent(nowMs: number): void {
    for (const [key, { record, atMs }] of this.#known) {
      const silentMs = Math.max(SILENT_INTERVALS * record.intervalMs, LEAST_SILENCE_MS);
      if (nowMs - atMs > silentMs) this.#known.delete(key);
    }
  }
}

function keyOf({ group, id }: MetadataServerLoad): string {
  return `${group}/${id}`;
}

function serverLoad(id: string, record: MetadataServerRecord): ServerLoad {
  const { metadataBytes, smallFileBytes, capacityBytes, markPerMille } = record;
  return {
    id,
    metadataBytes,
    smallFileBytes,
    capacityBytes,
    efficiencyMark: markPerMille / 1000,
  };
}
