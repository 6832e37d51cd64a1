import type { Outcome } from './gateway-trunks.js';
import type { IndexCost } from './index-writer.js';
import type { Limits } from './limits.js';

/**
 * What a deployment of so many files and gateways needs, and which limit that reaches first.
 * Everything here is multiplied out of what was simulated or measured. Pure.
 */

export interface Costs extends IndexCost {
  readonly meanBytes: number;
  /** Statements a second that an idle gateway asks the map. */
  readonly idleStatements: number;
  readonly rebuildFilesPerSecond: number;
  /** Of a gateway with that many files in its FileMap; undefined: more than was measured tells. */
  readonly restartSeconds: (files: number) => number | undefined;
}

export interface Deployment {
  readonly files: number;
  readonly gateways: number;
  /** Of one of its gateways. */
  readonly trunks: Outcome;
  /** Keys that one gateway asks the map for, at the busiest hour. */
  readonly lookupsPerSecond: number;
}

export interface Needs {
  readonly hasMap: boolean;
  readonly uploadsPerSecond: number;
  readonly mapBytes: number;
  readonly mapRowsPerSecond: number;
  readonly mapStatementsPerSecond: number;
  readonly mapConnections: number;
  readonly mapRebuildSeconds: number;
  readonly trunks: number;
  /** Stored a day at all gateways, those included that are joined later. */
  readonly trunksPerDay: number;
  /** In bytes or in files, of those that stay. */
  readonly meanFill: number;
  /** Bytes written to FastDFS over those of the files. */
  readonly written: number;
  readonly fileMapBytes: number;
  readonly restartSeconds: number | undefined;
  readonly groups: number;
  readonly groupWriteBytesPerSecond: number;
  readonly trackerRequestsPerSecond: number;
}

/** Connections of a gateway to the map: the default of `openMap`. */
const CONNECTIONS = 4;
const DAY_SECONDS = 86_400;

/** Uploads a second of the busiest hour. */
export function peakUploads(files: number, { uploadDays, peak }: Limits): number {
  return (files / (uploadDays * DAY_SECONDS)) * peak;
}

export function needsOf(deployment: Deployment, costs: Costs, limits: Limits): Needs {
  const { files, gateways, trunks: made, lookupsPerSecond } = deployment;
  const hasMap = gateways > 1;
  const uploadsPerSecond = peakUploads(files, limits);
  const perDay = files / limits.uploadDays;
  const inFastdfs = Math.max(1, made.files - made.waitingFiles);
  // Every trunk that stores a file is published to the map, thin ones too.
  const timesPlaced = made.storedFiles / inFastdfs;
  const stores = made.stored / inFastdfs;
  const written = made.storedBytes / Math.max(1, made.bytes - made.waitingBytes);
  const bytes = files * costs.meanBytes;
  const trunks = (files * made.staying) / Math.max(1, made.stayingFiles) + gateways * made.thin;
  // A joined trunk is retired with a statement of its own.
  const placing = uploadsPerSecond * stores * (costs.statementsPerTrunk + 1);
  const groups = Math.ceil(bytes / limits.groupBytes);
  // A trunk is stored, maybe deleted later, and a missed file read: each asks a tracker once.
  const missed = uploadsPerSecond * limits.readsPerUpload * limits.missShare;
  return {
    hasMap,
    uploadsPerSecond,
    mapBytes: hasMap ? files * costs.mapBytesPerFile : 0,
    mapRowsPerSecond: hasMap ? uploadsPerSecond * timesPlaced : 0,
    mapStatementsPerSecond: hasMap
      ? gateways * (costs.idleStatements + lookupsPerSecond) + placing
      : 0,
    mapConnections: hasMap ? gateways * CONNECTIONS : 0,
    mapRebuildSeconds: hasMap ? files / costs.rebuildFilesPerSecond : 0,
    trunks,
    trunksPerDay: perDay * stores,
    meanFill: made.fills.reduce((sum, fill) => sum + fill, 0) / Math.max(1, made.fills.length),
    written,
    fileMapBytes: (files / gateways) * costs.fileMapBytesPerFile,
    restartSeconds: costs.restartSeconds(files / gateways),
    groups,
    groupWriteBytesPerSecond: (uploadsPerSecond * costs.meanBytes * written) / groups,
    trackerRequestsPerSecond: uploadsPerSecond * stores * 2 + missed,
  };
}

export interface Load {
  readonly what: string;
  /** Of the limit. */
  readonly share: number;
  readonly remedy: string;
}

/** The loads, the one that is nearest to its limit or furthest beyond it first. */
export function loadsOf(needs: Needs, gateways: number, limits: Limits): readonly Load[] {
  const load = (what: string, share: number, remedy: string): Load => ({ what, share, remedy });
  const perGateway = needs.uploadsPerSecond / gateways;
  return [
    load(
      'connections of the map',
      needs.mapConnections / limits.mapConnections,
      'raise `max_connections` to 5 for each gateway; about 10 MB of memory each',
    ),
    load(
      'rows the map takes',
      needs.mapRowsPerSecond / limits.mapRowsPerSecond,
      'a database that spreads over nodes, with `?spread=true`, or several deployments; a longer `mergeMaxAge` where trunks are thin',
    ),
    load(
      'statements of the map',
      needs.mapStatementsPerSecond / limits.mapStatementsPerSecond,
      'a balancer that hashes the path, so that a key is read at one gateway and looked up once; or several deployments',
    ),
    load(
      'size of the map',
      needs.mapBytes / limits.mapBytes,
      'a database that spreads over nodes, with `?spread=true`, or several deployments',
    ),
    load(
      'rebuild of the map',
      needs.mapRebuildSeconds / limits.mapRebuildSeconds,
      'a standby of the database, so that it need not be rebuilt',
    ),
    load(
      'uploads of a gateway',
      perGateway / limits.gatewayUploadsPerSecond,
      '`--workers`, or more gateways',
    ),
    load(
      'FileMap of a gateway',
      needs.fileMapBytes / limits.gatewayFileMapBytes,
      'more gateways, or a larger SSD for `--directory`',
    ),
    load('groups', needs.groups / limits.groups, 'larger disks in a group, or several clusters'),
    load(
      'trunks in a group',
      needs.trunks / needs.groups / limits.trunksPerGroup,
      'more groups, or a larger `trunkSize`',
    ),
    load(
      'writes of a group',
      needs.groupWriteBytesPerSecond / limits.groupWriteBytesPerSecond,
      'more groups than the size needs',
    ),
    load(
      'requests of trackers',
      needs.trackerRequestsPerSecond / limits.trackerRequestsPerSecond,
      'more trackers; larger caches at the gateways',
    ),
  ].sort((a, b) => b.share - a.share);
}
