import { UsageError } from '../harness/usage-error.js';

/**
 * What the model assumes and what it holds loads against. Each can be changed:
 * STEVEDORE_BENCH_LIMITS='mapRowsPerSecond=50000,peak=5'. Pure.
 */
export const DEFAULT_LIMITS = {
  /** Assumption: all files were uploaded within so many days, the same number each day. */
  uploadDays: 365,
  /** Assumption: the busiest hour of a day has so many times the uploads of the mean hour. */
  peak: 3,
  /** Assumption. */
  readsPerUpload: 10,
  /** Assumption: reads that no cache of a gateway answers, and no read copy either. */
  missShare: 0.2,

  /** Assumption: rows that one PostgreSQL server inserts, thousands in a statement, on a good SSD. */
  mapRowsPerSecond: 50_000,
  /** Assumption: short statements, each of one or a few index look-ups in memory. */
  mapStatementsPerSecond: 20_000,
  /** Assumption: beyond 2 TB, backups and vacuums of one server take a day. Its tables end at 32 TB. */
  mapBytes: 2e12,
  /** PostgreSQL's default `max_connections` (its documentation, section 20.3). */
  mapConnections: 100,
  /** Assumption: a lost map must be back within a day. */
  mapRebuildSeconds: 86_400,

  /** Assumption: small uploads a second of a gateway with one process. */
  gatewayUploadsPerSecond: 3_000,
  /** Assumption: the part of a gateway's disk that its FileMap may take. */
  gatewayFileMapBytes: 1e12,

  /** Assumption: the disk of one storage, and so of its group. */
  groupBytes: 16e12,
  /** FastDFS knows so many groups (FDFS_MAX_GROUPS); our tracker too. */
  groups: 512,
  /** 256 × 256 directories of a store path, and an assumption: 1,000 files in each are found fast. */
  trunksPerGroup: 256 * 256 * 1_000,
  /** Assumption: what a storage with a hard disk writes while it is read. */
  groupWriteBytesPerSecond: 50e6,
  /** Assumption: requests of one tracker; clients use all trackers that they know in turn. */
  trackerRequestsPerSecond: 20_000,
} as const;

export type Limits = { readonly [Name in keyof typeof DEFAULT_LIMITS]: number };

/** `text`: NAME=NUMBER and commas between. Throws UsageError. */
export function limitsFrom(text: string | undefined): Limits {
  const limits: Record<string, number> = { ...DEFAULT_LIMITS };
  for (const part of (text ?? '').split(',').filter((each) => each.trim() !== '')) {
    const [name = '', value = ''] = part.split('=').map((each) => each.trim());
    if (!Object.hasOwn(DEFAULT_LIMITS, name)) {
      const known = Object.keys(DEFAULT_LIMITS).join(', ');
      throw new UsageError(`STEVEDORE_BENCH_LIMITS: there is no "${name}"; there are: ${known}`);
    }
    if (!(Number(value) > 0)) {
      throw new UsageError(`STEVEDORE_BENCH_LIMITS: ${name} is "${value}", not a number over 0`);
    }
    limits[name] = Number(value);
  }
  return limits as Limits;
}
