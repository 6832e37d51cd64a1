import { mean } from '../harness/figures.js';
import type { SteadyOutcome } from '../merging/site-process.js';
import type { IndexCost } from './indexes.js';
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
}

export interface Deployment {
  readonly files: number;
  readonly gateways: number;
  /** Of one of its gateways. */
  readonly trunks: SteadyOutcome;
  /** Keys that one gateway asks the map for, at the busiest hour. */
  readonly lookupsPerSecond: number;
}

export type Needs = ReturnType<typeof needsOf>;

/** Connections of a gateway to the map: the default of `openMap`. */
const CONNECTIONS = 4;
const DAY_SECONDS = 86_400;

/** Uploads a second of the busiest hour. */
export function peakUploads(files: number, { uploadDays, peak }: Limits): number {
  return (files / (uploadDays * DAY_SECONDS)) * peak;
}

export function needsOf(deployment: Deployment, costs: Costs, limits: Limits) {
  const { files, gateways, trunks: made, lookupsPerSecond } = deployment;
  const hasMap = gateways > 1;
  const uploadsPerSecond = peakUploads(files, limits);
  const inFastdfs = Math.max(1, made.files - made.waitingFiles);
  // Every trunk that stores a file is published to the map, thin ones too.
  const timesPlaced = made.storedFiles / inFastdfs;
  const stores = made.stored / inFastdfs;
  const written = made.storedBytes / Math.max(1, made.bytes - made.waitingBytes);
  // A joined trunk is retired with a statement of its own.
  const placing = uploadsPerSecond * stores * (costs.statementsPerTrunk + 1);
  const groups = Math.ceil((files * costs.meanBytes) / limits.groupBytes);
  // A trunk is stored, maybe deleted later, and a missed file read: each asks a tracker once.
  const missed = uploadsPerSecond * limits.readsPerUpload * limits.missShare;
  const ofMap = (value: number) => (hasMap ? value : 0);
  return {
    ...{ hasMap, uploadsPerSecond, written, groups },
    mapBytes: ofMap(files * costs.mapBytesPerFile),
    mapRowsPerSecond: ofMap(uploadsPerSecond * timesPlaced),
    mapStatementsPerSecond: ofMap(gateways * (costs.idleStatements + lookupsPerSecond) + placing),
    mapConnections: ofMap(gateways * CONNECTIONS),
    mapRebuildSeconds: ofMap(files / costs.rebuildFilesPerSecond),
    trunks: (files * made.staying) / Math.max(1, made.stayingFiles) + gateways * made.thin,
    /** Stored a day at all gateways, those included that are joined later. */
    trunksPerDay: (files / limits.uploadDays) * stores,
    /** In bytes or in files, of those that stay. */
    meanFill: mean(made.fills),
    fileMapBytes: (files / gateways) * costs.fileMapBytesPerFile,
    groupWriteBytesPerSecond: (uploadsPerSecond * costs.meanBytes * written) / groups,
    trackerRequestsPerSecond: uploadsPerSecond * stores * 2 + missed,
  };
}

/** A load as a share of its limit, and what to do about it. */
interface Rule {
  readonly what: string;
  readonly share: (needs: Needs, limits: Limits, gateways: number) => number;
  readonly remedy: string;
}

const SPREAD = 'a database that spreads over nodes, with `?spread=true`, or several deployments';

const RULES: readonly Rule[] = [
  {
    what: 'connections of the map',
    share: (needs, limits) => needs.mapConnections / limits.mapConnections,
    remedy: 'raise `max_connections` to 5 for each gateway; about 10 MB of memory each',
  },
  {
    what: 'rows the map takes',
    share: (needs, limits) => needs.mapRowsPerSecond / limits.mapRowsPerSecond,
    remedy: `${SPREAD}; a longer \`mergeMaxAge\` where trunks are thin`,
  },
  {
    what: 'statements of the map',
    share: (needs, limits) => needs.mapStatementsPerSecond / limits.mapStatementsPerSecond,
    remedy:
      'a balancer that hashes the path, so that a key is read at one gateway and looked up once; or several deployments',
  },
  {
    what: 'size of the map',
    share: (needs, limits) => needs.mapBytes / limits.mapBytes,
    remedy: SPREAD,
  },
  {
    what: 'rebuild of the map',
    share: (needs, limits) => needs.mapRebuildSeconds / limits.mapRebuildSeconds,
    remedy: 'a standby of the database, so that it need not be rebuilt',
  },
  {
    what: 'uploads of a gateway',
    share: (needs, limits, gateways) =>
      needs.uploadsPerSecond / gateways / limits.gatewayUploadsPerSecond,
    remedy: '`--workers`, or more gateways',
  },
  {
    what: 'FileMap of a gateway',
    share: (needs, limits) => needs.fileMapBytes / limits.gatewayFileMapBytes,
    remedy: 'more gateways, or a larger SSD for `--directory`',
  },
  {
    what: 'groups',
    share: (needs, limits) => needs.groups / limits.groups,
    remedy: 'larger disks in a group, or several clusters',
  },
  {
    what: 'trunks in a group',
    share: (needs, limits) => needs.trunks / needs.groups / limits.trunksPerGroup,
    remedy: 'more groups, or a larger `trunkSize`',
  },
  {
    what: 'writes of a group',
    share: (needs, limits) => needs.groupWriteBytesPerSecond / limits.groupWriteBytesPerSecond,
    remedy: 'more groups than the size needs',
  },
  {
    what: 'requests of trackers',
    share: (needs, limits) => needs.trackerRequestsPerSecond / limits.trackerRequestsPerSecond,
    remedy: 'more trackers; larger caches at the gateways',
  },
];

export type Load = ReturnType<typeof loadsOf>[number];

/** The loads, the one that is nearest to its limit or furthest beyond it first. */
export function loadsOf(needs: Needs, gateways: number, limits: Limits) {
  return RULES.map(({ what, share, remedy }) => ({
    ...{ what, remedy },
    share: share(needs, limits, gateways),
  })).sort((a, b) => b.share - a.share);
}
