import { secretsProblem } from '@stevedore/protocol';
import { type Address, DEFAULT_TRACKER_PORT, MAX_TIMER_MS, parseAddress } from '@stevedore/wire';
import { FastdfsError } from './errors.js';

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
}

export interface Settings extends Required<Omit<FastdfsOptions, 'trackers' | 'secret'>> {
  readonly trackers: readonly Address[];
  readonly secret: string | undefined;
}

/** Default, least and most of each. */
const NUMBERS = {
  connectTimeoutMs: [5_000, 1, MAX_TIMER_MS],
  idleTimeoutMs: [30_000, 1, MAX_TIMER_MS],
  maxConnectionsPerAddress: [16, 1, 10_000],
  maxConnections: [256, 1, 100_000],
  maxQueuedPerAddress: [1_000, 0, 1_000_000],
  leaseTimeoutMs: [10_000, 1, MAX_TIMER_MS],
  maxIdleMs: [45_000, 1, MAX_TIMER_MS],
  busyRetries: [4, 0, 20],
  uploadsPerStoreAnswer: [16, 1, 10_000],
  readsPerFetchAnswer: [16, 1, 10_000],
} as const;

type NumberOption = keyof typeof NUMBERS;

/** Throws FastdfsError `invalid_argument` for an unknown name or an impossible value. */
export function checkOptions(options: FastdfsOptions): Settings {
  const { trackers, secret, followMoves = false, ...numbers } = options;
  for (const name of Object.keys(numbers)) {
    if (!Object.hasOwn(NUMBERS, name)) throw invalid(`unknown option ${name}`);
  }
  if (typeof followMoves !== 'boolean') throw invalid('followMoves must be true or false');
  const problem = secret === undefined ? undefined : secretsProblem([secret]);
  if (problem !== undefined) throw invalid(problem);
  const names = Object.keys(NUMBERS) as NumberOption[];
  const checked = names.map((name) => [name, checkNumber(name, numbers[name])]);
  return Object.freeze({
    ...(Object.fromEntries(checked) as Record<NumberOption, number>),
    trackers: checkTrackers(trackers),
    secret,
    followMoves,
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

function checkNumber(name: NumberOption, given: number | undefined): number {
  const [usual, least, most] = NUMBERS[name];
  const value = given ?? usual;
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw invalid(`${name} must be a whole number from ${least} to ${most}, not ${value}`);
}

function invalid(message: string): FastdfsError {
  return new FastdfsError('invalid_argument', message, { operation: 'options' });
}
