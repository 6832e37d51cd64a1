import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import {
  type CallOptions,
  type ClientStats,
  FastdfsClient,
  FastdfsError,
  type StorageRecord,
} from '@stevedore/fastdfs';
import type { EmbeddedNode } from '@stevedore/node/embedded';
import {
  addressText,
  isError,
  parseSecrets,
  StorageStatus,
  secretsProblem,
} from '@stevedore/protocol';
import { StoreError } from '@stevedore/staging';
import { invalidOption, type StoreOptions } from '../options.js';
import type { CopyAtStorage } from './places.js';

/**
 * Examines a cluster before a store relies on it: asks each tracker for the storages that it knows,
 * then stores, reads and deletes one small file. Reports facts without judging them.
 */

export interface StorageMember {
  readonly group: string;
  /** `host:port` */
  readonly address: string;
  readonly version: string;
  readonly active: boolean;
  readonly freeBytes: number;
  readonly totalBytes: number;
  /** Its last heartbeat, according to the tracker; undefined if unknown. */
  readonly lastHeartbeatAt: Date | undefined;
}

export interface TrackerFinding {
  readonly address: string;
  /** Why the tracker did not answer; undefined if it did. */
  readonly error: string | undefined;
  readonly roundTripMs: number;
  readonly storages: readonly StorageMember[];
}

export interface ProbeFinding {
  /** Why storing, reading or deleting failed; undefined if nothing did. */
  readonly error: string | undefined;
  readonly durationMs: number;
  /** When the file was created by the storage's clock, in whole seconds. */
  readonly storageTime: Date | undefined;
  /** This machine's clock before and after the upload. */
  readonly from: Date;
  readonly until: Date;
}

export interface ClusterFinding {
  readonly trackers: readonly TrackerFinding[];
  /** Absent if no tracker answered. */
  readonly probe?: ProbeFinding;
}

const CALL_TIMEOUT_MS = 5_000;
const PROBE_TIMEOUT_MS = 15_000;
const MEBIBYTE = 2 ** 20;
const PROBE_BODY = 'stevedore asks whether a file can be stored here; it may be deleted';

/** Rejects only with `invalid_option`, for malformed addresses. */
export async function inspectCluster(
  addresses: readonly string[],
  secret?: string,
): Promise<ClusterFinding> {
  const client = connect({ trackers: addresses, secret, connectTimeoutMs: CALL_TIMEOUT_MS });
  try {
    const trackers = await Promise.all(addresses.map((address) => inspectTracker(address, secret)));
    if (trackers.every(({ error }) => error !== undefined)) return { trackers };
    return { trackers, probe: await probe(client) };
  } finally {
    await client.close();
  }
}

/** As `listMembers`; rejects with `storage_unavailable`. */
export async function membersNow(client: FastdfsClient): Promise<readonly StorageMember[]> {
  try {
    return await listMembers(client);
  } catch (error) {
    const message = `the trackers could not be asked: ${(error as Error).message}`;
    throw new StoreError('storage_unavailable', message, { cause: error });
  }
}

/** `host:port` of a storage. */
function addressOf({ address, storagePort }: StorageRecord): string {
  return addressText(address, storagePort);
}

/** What each storage of the file's group says of its copy. Rejects if no tracker answers. */
export async function replicasOf(
  fileId: string,
  client: FastdfsClient,
  options: CallOptions,
): Promise<CopyAtStorage[]> {
  const { group } = client.describe(fileId);
  const storages = await client.listStorages(group, options);
  return Promise.all(
    storages.map(async (storage) => {
      const active = storage.status === StorageStatus.active;
      const copy = active ? await replicaAt(storage, fileId, client, options) : 'unknown';
      return { address: addressOf(storage), active, copy };
    }),
  );
}

async function replicaAt(
  { address, storagePort: port }: StorageRecord,
  fileId: string,
  client: FastdfsClient,
  options: CallOptions,
): Promise<CopyAtStorage['copy']> {
  const { size, crc32, kind } = client.describe(fileId);
  const isFixed = kind === 'normal' || kind === 'slot';
  try {
    const storage = { address, port };
    const info = await client.info(fileId, { ...options, storage, computeCrc: false });
    const isSame = !isFixed || (info.size === size && info.crc32 === crc32);
    return isSame ? 'present' : 'differs';
  } catch (error) {
    options.signal?.throwIfAborted();
    if (!(error instanceof FastdfsError)) throw error;
    return error.code === 'not_found' ? 'absent' : 'unknown';
  }
}

/** The storages that the trackers know. Rejects with FastdfsError. */
async function listMembers(client: FastdfsClient): Promise<readonly StorageMember[]> {
  const options = { deadlineMs: CALL_TIMEOUT_MS };
  const members: StorageMember[] = [];
  for (const { name } of await client.listGroups(options)) {
    for (const storage of await client.listStorages(name, options)) {
      members.push({
        group: name,
        address: addressOf(storage),
        version: storage.version,
        active: storage.status === StorageStatus.active,
        freeBytes: storage.freeMegabytes * MEBIBYTE,
        totalBytes: storage.totalMegabytes * MEBIBYTE,
        lastHeartbeatAt: lastHeartbeatAt(storage.statistics.times.lastHeartBeatSeconds),
      });
    }
  }
  return members;
}

async function inspectTracker(
  address: string,
  secret: string | undefined,
): Promise<TrackerFinding> {
  const client = connect({ trackers: [address], secret, connectTimeoutMs: CALL_TIMEOUT_MS });
  const startedAt = performance.now();
  try {
    await client.ping({ deadlineMs: CALL_TIMEOUT_MS });
    const roundTripMs = performance.now() - startedAt;
    const storages = await listMembers(client);
    return { address, error: undefined, roundTripMs, storages };
  } catch (error) {
    const roundTripMs = performance.now() - startedAt;
    return { address, error: (error as Error).message, roundTripMs, storages: [] };
  } finally {
    await client.close();
  }
}

function lastHeartbeatAt(seconds: number): Date | undefined {
  return seconds > 0 ? new Date(seconds * 1000) : undefined;
}

async function probe(client: FastdfsClient): Promise<ProbeFinding> {
  const options = { deadlineMs: PROBE_TIMEOUT_MS };
  const startedAt = performance.now();
  const from = new Date();
  let until = from;
  let storageTime: Date | undefined;
  let error: string | undefined;
  try {
    const body = Buffer.from(PROBE_BODY);
    const fileId = await client.upload(body, { ...options, extension: 'txt' });
    until = new Date();
    storageTime = client.describe(fileId).createdAt;
    const back = await client.downloadBytes(fileId, options);
    if (!back.equals(body)) error = 'other bytes came back than were stored';
    await client.delete(fileId, options);
  } catch (failure) {
    error = (failure as Error).message;
  }
  return { error, durationMs: performance.now() - startedAt, storageTime, from, until };
}

/** Throws `invalid_option` for malformed addresses. */
export function connect(options: ConstructorParameters<typeof FastdfsClient>[0]): FastdfsClient {
  try {
    return new FastdfsClient(options);
  } catch (error) {
    if (error instanceof FastdfsError) throw invalidOption(error.message);
    throw error;
  }
}

/**
 * Reads the secrets of a cluster from a file, one per line; lines that begin with # are comments.
 * An empty path gives none. Rejects with StoreError `invalid_option`.
 */
export async function readClusterSecrets(path: string): Promise<readonly string[]> {
  if (path === '') return [];
  const text = await readFile(path, 'utf8').catch((error: Error) => {
    throw invalidOption(`the file of the cluster's secret cannot be read: ${error.message}`);
  });
  const secrets = parseSecrets(text);
  const problem = secretsProblem(secrets);
  if (problem !== undefined) throw invalidOption(`in ${path} ${problem}`);
  return secrets;
}

/** The trackers to use: those of the options, or the embedded node's. */
export interface Cluster {
  readonly trackers: readonly string[];
  /** Of an embedded node, which takes trunks as files. */
  readonly take?: EmbeddedNode['take'];
  readonly close: () => Promise<void>;
}

export async function startCluster(
  { trackers, directory, trackerPort, storagePort, metadataTier }: StoreOptions,
  secrets: readonly string[],
  onError: (error: Error) => void,
): Promise<Cluster> {
  if (trackers.length > 0) return { trackers, close: () => Promise.resolve() };
  // Loaded on demand: an app with its own cluster never needs it.
  const { startEmbeddedNode } = await import('@stevedore/node/embedded');
  try {
    return await startEmbeddedNode({
      directory: resolve(directory, 'node'),
      trackerPort,
      storagePort,
      tiers: { enabled: metadataTier },
      secrets,
      onError,
    });
  } catch (error) {
    throw nodeError(error);
  }
}

function nodeError(error: unknown): unknown {
  if (!isError(error)) return error;
  const code = (error as NodeJS.ErrnoException).code;
  if (code === 'EADDRINUSE') return new StoreError('port_in_use', error.message, { cause: error });
  // The file of its thread is not where the code is.
  const isBundled = code === 'MODULE_NOT_FOUND' || code === 'ERR_MODULE_NOT_FOUND';
  const advice = isBundled ? '; leave @stevedore/client out of the bundle of your app' : '';
  return new StoreError(
    'directory_unusable',
    `the embedded node could not start: ${error.message}${advice}`,
    { cause: error },
  );
}

/** Two pools of connections, so that neither readers nor merging can exhaust all of them. */
export interface Clients {
  readonly reading: FastdfsClient;
  readonly merging: FastdfsClient;
}

export function sumOf({ reading, merging }: Clients): ClientStats {
  const [one, other] = [reading.stats(), merging.stats()];
  const names = Object.keys(one) as (keyof ClientStats)[];
  return Object.fromEntries(names.map((name) => [name, one[name] + other[name]])) as never;
}
