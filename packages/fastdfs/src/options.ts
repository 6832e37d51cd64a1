import { tmpdir } from 'node:os';
import { secretsProblem } from '@stevedore/protocol';
import { type Address, DEFAULT_TRACKER_PORT, MAX_TIMER_MS, parseAddress } from '@stevedore/wire';
import { FastdfsError } from './errors.js';
import {
  type AddressMap,
  AllowList,
  checkAddressMap,
  type MapAddress,
} from './storage-addresses.js';

/** Options of a client: types, defaults and checks. Checked once, then frozen. */

export interface FastdfsOptions {
  /** At least one of `host:port`, `[::1]:22122` or `host`; the default port is 22122. */
  readonly trackers: readonly string[];
  /** Milliseconds to wait for a connection to be made. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /** Milliseconds a server may leave a call without any progress. Default 30,000. */
  readonly idleTimeoutMs?: number;
  /** Connections to one address, idle ones included. Default 16. */
  readonly maxConnectionsPerAddress?: number;
  /** Connections to all addresses together, idle ones included. Default 256. */
  readonly maxConnections?: number;
  /** Calls that may wait for a connection to one address; one more fails at once. Default 1,000. */
  readonly maxQueuedPerAddress?: number;
  /** Milliseconds a call waits for a connection to become free. Default 10,000. */
  readonly leaseTimeoutMs?: number;
  /**
   * Milliseconds after which an unused connection is closed. Default 45,000, below
   * the 60 s after which many servers and routers drop it themselves.
   */
  readonly maxIdleMs?: number;
  /** How often a call is repeated that a server answers with EAGAIN (11). Default 4. */
  readonly busyRetries?: number;
  /**
   * Concurrent uploads that may share a tracker's answer, for at most a second. With 1, each upload
   * asks. Default 16.
   */
  readonly uploadsPerStoreAnswer?: number;
  /**
   * Concurrent reads that may share a tracker's answer, for at most a second, if their files have
   * the same source and are not newer than the one it was for. With 1, each read asks. Default 16.
   */
  readonly readsPerFetchAnswer?: number;
  /** Addresses of storages for clients outside the cluster's network. */
  readonly addressMap?: AddressMap;
  /**
   * Storages that the client may connect to, after `addressMap`: addresses, networks (`10.0.0.0/8`)
   * or names, with or without port. Default: all that a tracker names.
   */
  readonly allowedStorages?: readonly string[];
  /**
   * The secret of a cluster of Stevedore's trackers and storages, at least 16 bytes. Servers that
   * cannot prove it are not used.
   */
  readonly secret?: string | undefined;
  /**
   * Reads files that their storage has moved to another group there, instead of through that
   * storage. Downloads then carry a flag that Stevedore's storages know and others ignore. Default
   * false: requests have the same bytes as the C client's.
   */
  readonly followMoves?: boolean;
  /** Longest body of unknown length. Default 1 GiB. */
  readonly maxSpoolBytes?: number;
  /** Directory for bodies of unknown length. Default: the system's temporary directory. */
  readonly spoolDirectory?: string;
}

export interface Settings
  extends Required<Omit<FastdfsOptions, 'trackers' | 'addressMap' | 'allowedStorages' | 'secret'>> {
  readonly trackers: readonly Address[];
  readonly mapAddress: MapAddress | undefined;
  readonly allowList: AllowList | undefined;
  readonly secret: string | undefined;
}

const NUMBER_OPTIONS = {
  connectTimeoutMs: { default: 5_000, min: 1, max: MAX_TIMER_MS },
  idleTimeoutMs: { default: 30_000, min: 1, max: MAX_TIMER_MS },
  maxConnectionsPerAddress: { default: 16, min: 1, max: 10_000 },
  maxConnections: { default: 256, min: 1, max: 100_000 },
  maxQueuedPerAddress: { default: 1_000, min: 0, max: 1_000_000 },
  leaseTimeoutMs: { default: 10_000, min: 1, max: MAX_TIMER_MS },
  maxIdleMs: { default: 45_000, min: 1, max: MAX_TIMER_MS },
  busyRetries: { default: 4, min: 0, max: 20 },
  uploadsPerStoreAnswer: { default: 16, min: 1, max: 10_000 },
  readsPerFetchAnswer: { default: 16, min: 1, max: 10_000 },
  maxSpoolBytes: { default: 2 ** 30, min: 0, max: Number.MAX_SAFE_INTEGER },
} as const satisfies Readonly<Record<string, { default: number; min: number; max: number }>>;

type NumberOption = keyof typeof NUMBER_OPTIONS;

const OTHER_OPTIONS: readonly string[] = [
  'trackers',
  'addressMap',
  'allowedStorages',
  'secret',
  'followMoves',
  'spoolDirectory',
];

/** Throws FastdfsError `invalid_argument` for an unknown name or an impossible value. */
export function checkOptions(options: FastdfsOptions): Settings {
  for (const name of Object.keys(options)) {
    if (!OTHER_OPTIONS.includes(name) && !Object.hasOwn(NUMBER_OPTIONS, name)) {
      throw invalid(`unknown option ${name}`);
    }
  }
  const { addressMap, allowedStorages, secret, followMoves = false } = options;
  const { spoolDirectory = tmpdir() } = options;
  if (typeof followMoves !== 'boolean') throw invalid('followMoves must be true or false');
  if (typeof spoolDirectory !== 'string' || spoolDirectory === '') {
    throw invalid('spoolDirectory must be the path of a directory');
  }
  const problem = secret === undefined ? undefined : secretsProblem([secret]);
  if (problem !== undefined) throw invalid(problem);
  return Object.freeze({
    ...checkNumbers(options),
    trackers: checkTrackers(options.trackers),
    mapAddress: addressMap === undefined ? undefined : checkAddressMap(addressMap, invalid),
    allowList: allowedStorages === undefined ? undefined : new AllowList(allowedStorages, invalid),
    secret,
    followMoves,
    spoolDirectory,
  });
}

function checkTrackers(trackers: readonly string[]): readonly Address[] {
  if (!Array.isArray(trackers) || trackers.length === 0) {
    throw invalid('trackers must name at least one tracker');
  }
  const byText = new Map<string, Address>();
  for (const text of trackers) {
    const address = typeof text === 'string' ? parseAddress(text, DEFAULT_TRACKER_PORT) : undefined;
    if (!address) throw invalid(`tracker "${text}" is not host, host:port or [ipv6]:port`);
    byText.set(address.text, address);
  }
  return Object.freeze([...byText.values()]);
}

function checkNumbers(options: FastdfsOptions): Readonly<Record<NumberOption, number>> {
  const names = Object.keys(NUMBER_OPTIONS) as NumberOption[];
  const checked = names.map((name) => [name, checkNumber(options, name)] as const);
  return Object.fromEntries(checked) as Record<NumberOption, number>;
}

function checkNumber(options: FastdfsOptions, name: NumberOption): number {
  const limits = NUMBER_OPTIONS[name];
  const value = options[name] ?? limits.default;
  if (!Number.isInteger(value) || value < limits.min || value > limits.max) {
    throw invalid(
      `${name} must be a whole number from ${limits.min} to ${limits.max}, not ${value}`,
    );
  }
  return value;
}

function invalid(message: string): FastdfsError {
  return new FastdfsError('invalid_argument', message, { operation: 'options' });
}
