import { resolve } from 'node:path';
import { type Disk, storeDisk } from '@stevedore/disk';
import { defaultsOf, OptionError, type OptionValues } from '@stevedore/options';
import { isGroupName } from '@stevedore/protocol';
import {
  type AccessOptions,
  type AccessSettings,
  type Address,
  accessSettings,
  type ConnectionLimits,
  type ConnectionOptions,
  checkAddress,
  connectionLimits,
  DEFAULT_TRACKER_PORT,
  type Environment,
  isOwnAddress,
  systemEnvironment,
} from '@stevedore/wire';
import { storageFlags } from './flags.js';

type Flags = OptionValues<typeof storageFlags>;

export interface StorageOptions
  extends Partial<Omit<Flags, 'storePaths' | 'heartbeat' | 'cacheSize' | 'readAhead'>>,
    ConnectionOptions,
    AccessOptions {
  /** Directories that hold the files; made if they do not exist. At least one. */
  readonly storePaths: readonly string[];
  /** IPv4 address for file names. Default: as the trackers see this storage. */
  readonly address?: string;
  /** Idle files kept open; fewer if the system runs out of descriptors. Default 2560. */
  readonly maxIdleFiles?: number;
  /** The flag `cacheSize`. */
  readonly cacheBytes?: number;
  /** The flag `readAhead`. */
  readonly readAheadBytes?: number;
  /** Share of the cache for slices read ahead and not requested yet. Default 0.25. */
  readonly readAheadShare?: number;
  /** How long a new file waits for the other members. Default 5000. */
  readonly writeTimeoutMs?: number;
  /** The flag `heartbeat`. */
  readonly beatIntervalMs?: number;
  /** Pause before reconnecting to a tracker or member. Default 1000. */
  readonly reconnectDelayMs?: number;
  /** Default: that of this machine, with or without syncs according to `durability`. */
  readonly disk?: Disk;
  readonly environment?: Environment;
  /** Called with errors that no answer reports. Default: they are ignored. */
  readonly onError?: (error: Error) => void;
}

export interface StorageSettings
  extends Required<
    Omit<
      StorageOptions,
      'storePaths' | 'trackers' | 'address' | keyof ConnectionOptions | keyof AccessOptions
    >
  > {
  readonly storePaths: readonly [string, ...string[]];
  readonly trackers: readonly Address[];
  readonly address: string | undefined;
  readonly limits: ConnectionLimits;
  readonly access: AccessSettings;
}

const MAX_STORE_PATHS = 256;
const MAX_TRACKERS = 16;

/** Numbers are within their bounds: the flags of an operator check them. */
export function storageSettings(options: StorageOptions): StorageSettings {
  const { heartbeat, cacheSize, readAhead, ...flags } = defaultsOf(storageFlags);
  const [first, ...others] = options.storePaths.map((path) => resolve(path));
  if (first === undefined || others.length >= MAX_STORE_PATHS) {
    throw new OptionError(`storePaths must name 1 to ${MAX_STORE_PATHS} directories`);
  }
  const settings: StorageSettings = {
    ...flags,
    maxIdleFiles: 2560,
    cacheBytes: cacheSize,
    readAheadBytes: readAhead,
    readAheadShare: 0.25,
    writeTimeoutMs: 5000,
    beatIntervalMs: heartbeat,
    reconnectDelayMs: 1000,
    disk: storeDisk([first, ...others], options.durability !== 'os'),
    environment: systemEnvironment,
    onError: () => {},
    address: undefined,
    ...options,
    storePaths: [first, ...others],
    trackers: (options.trackers ?? []).map((text) => checkAddress(text, DEFAULT_TRACKER_PORT)),
    limits: connectionLimits(options),
    access: accessSettings(options),
  };
  check(settings);
  return Object.freeze(settings);
}

function check(settings: StorageSettings): void {
  const { storePaths, trackers, group, address } = settings;
  if (new Set(storePaths).size !== storePaths.length) {
    throw new OptionError('storePaths names a directory twice');
  }
  if (trackers.length > MAX_TRACKERS) throw new OptionError(`more than ${MAX_TRACKERS} trackers`);
  if (!isGroupName(group)) {
    throw new OptionError(`group must be 1 to 16 letters and digits, not "${group}"`);
  }
  if (address !== undefined && !isOwnAddress(address)) {
    throw new OptionError(`address must be an IPv4 address, not "${address}"`);
  }
  if (settings.writeCopies > 1 && trackers.length === 0) {
    throw new OptionError('writeCopies needs trackers, which list the other members');
  }
}
