import { type Address, DEFAULT_TRACKER_PORT, parseAddress } from './address.js';
import { FastdfsError } from './errors.js';

/** The options of a client: type, defaults and check. Checked once, then frozen. */

export interface FastdfsOptions {
  /** At least one of `host:port`, `[::1]:22122` or `host`; the default port is 22122. */
  readonly trackers: readonly string[];
  /** Milliseconds to wait for a connection to be made. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /** Milliseconds a server may leave a call without any progress. Default 30,000. */
  readonly idleTimeoutMs?: number;
  /** Connections to one address, idle ones included. Default 16. */
  readonly maxConnectionsPerAddress?: number;
  /** Calls that may wait for a connection to one address; one more fails at once. Default 1,000. */
  readonly maxQueuedPerAddress?: number;
  /** Milliseconds a call waits for a connection to become free. Default 10,000. */
  readonly leaseTimeoutMs?: number;
  /**
   * Milliseconds after which an unused connection is closed. Default 45,000, below
   * the 60 s after which many servers and routers drop it themselves.
   */
  readonly maxIdleMs?: number;
}

export interface Settings {
  readonly trackers: readonly Address[];
  readonly connectTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly maxConnectionsPerAddress: number;
  readonly maxQueuedPerAddress: number;
  readonly leaseTimeoutMs: number;
  readonly maxIdleMs: number;
}

type NumberOption = Exclude<keyof FastdfsOptions, 'trackers'>;

/** The longest delay a timer takes. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

const NUMBER_OPTIONS: Readonly<
  Record<NumberOption, { default: number; min: number; max: number }>
> = {
  connectTimeoutMs: { default: 5_000, min: 1, max: MAX_TIMER_MS },
  idleTimeoutMs: { default: 30_000, min: 1, max: MAX_TIMER_MS },
  maxConnectionsPerAddress: { default: 16, min: 1, max: 10_000 },
  maxQueuedPerAddress: { default: 1_000, min: 0, max: 1_000_000 },
  leaseTimeoutMs: { default: 10_000, min: 1, max: MAX_TIMER_MS },
  maxIdleMs: { default: 45_000, min: 1, max: MAX_TIMER_MS },
};

/** Throws FastdfsError `invalid_argument` for an unknown name or an impossible value. */
export function checkOptions(options: FastdfsOptions): Settings {
  for (const name of Object.keys(options)) {
    if (name !== 'trackers' && !Object.hasOwn(NUMBER_OPTIONS, name)) {
      throw invalid(`unknown option ${name}`);
    }
  }
  return Object.freeze({
    trackers: checkTrackers(options.trackers),
    connectTimeoutMs: checkNumber(options, 'connectTimeoutMs'),
    idleTimeoutMs: checkNumber(options, 'idleTimeoutMs'),
    maxConnectionsPerAddress: checkNumber(options, 'maxConnectionsPerAddress'),
    maxQueuedPerAddress: checkNumber(options, 'maxQueuedPerAddress'),
    leaseTimeoutMs: checkNumber(options, 'leaseTimeoutMs'),
    maxIdleMs: checkNumber(options, 'maxIdleMs'),
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
