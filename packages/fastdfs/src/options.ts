import { secretsProblem } from '@stevedore/protocol';
import { type Address, DEFAULT_TRACKER_PORT, parseAddress } from '@stevedore/wire';
import { invalid } from './body.js';

/** Options of a client: types, defaults and checks. */

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

const DEFAULTS = {
  connectTimeoutMs: 5_000,
  idleTimeoutMs: 30_000,
  maxConnectionsPerAddress: 16,
  maxConnections: 256,
  maxQueuedPerAddress: 1_000,
  leaseTimeoutMs: 10_000,
  maxIdleMs: 45_000,
  busyRetries: 4,
  uploadsPerStoreAnswer: 16,
  readsPerFetchAnswer: 16,
  followMoves: false,
};

/** Throws FastdfsError `invalid_argument` for what an operator can have set wrong. */
export function checkOptions({ trackers, secret, ...others }: FastdfsOptions): Settings {
  const problem = secret === undefined ? undefined : secretsProblem([secret]);
  if (problem !== undefined) throw invalid('options', problem);
  return Object.freeze({ ...DEFAULTS, ...others, trackers: checkTrackers(trackers), secret });
}

function checkTrackers(trackers: readonly string[]): readonly Address[] {
  if (trackers.length === 0) throw invalid('options', 'trackers must name at least one tracker');
  const byText = new Map<string, Address>();
  for (const text of trackers) {
    const address = parseAddress(text, DEFAULT_TRACKER_PORT);
    if (!address)
      throw invalid('options', `tracker "${text}" is not host, host:port or [ipv6]:port`);
    byText.set(address.text, address);
  }
  return Object.freeze([...byText.values()]);
}
