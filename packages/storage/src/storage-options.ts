import { resolve } from 'node:path';
import { type Disk, localDisk } from '@stevedore/disk';
import { OptionError } from '@stevedore/options';
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

export interface StorageOptions extends ConnectionOptions, AccessOptions {
  /** Directories that hold the files; made if they do not exist. At least one. */
  readonly storePaths: readonly string[];
  /** Trackers to join, `host:port`. None: the storage serves clients that know its address. */
  readonly trackers?: readonly string[];
  /** Address to listen on, and to connect to trackers from. Default 127.0.0.1. */
  readonly host?: string;
  /** Default 23000; 0 picks a free one. */
  readonly port?: number;
  /** 1 to 16 letters and digits. Default `group1`. */
  readonly group?: string;
  /** IPv4 address for file names. Default: as the trackers see this storage. */
  readonly address?: string;
  /** Directories per level, 1 to 256, the same in the whole group. Default 256. */
  readonly subdirectoriesPerPath?: number;
  /** Idle files kept open; fewer if the system runs out of descriptors. Default 2560. */
  readonly maxIdleFiles?: number;
  /** Memory for the cache of small files and slices. Default 64 MiB; 0 disables it. */
  readonly cacheBytes?: number;
  /** Put a Bloom filter in front of that cache. Default false: the map is as fast alone. */
  readonly cacheFilter?: boolean;
  /** Bytes read at once for slices of one affinity group. Default 1 MiB; 0 reads each alone. */
  readonly readAheadBytes?: number;
  /** Share of the cache for slices read ahead and not requested yet. Default 0.25. */
  readonly readAheadShare?: number;
  /**
   * Members of the group, including this storage, that must have a new file before it is
   * answered; with fewer, it is removed and refused with status 11. Default 1, as in FastDFS.
   */
  readonly writeCopies?: number;
  /** How long a new file waits for the other members. Default 5000. */
  readonly writeTimeoutMs?: number;
  /** Interval of heartbeats to the trackers. Default 30,000. */
  readonly beatIntervalMs?: number;
  /** Pause before reconnecting to a tracker or member. Default 1000. */
  readonly reconnectDelayMs?: number;
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
  const { host, port, group, subdirectoriesPerPath, cacheSize, cacheFilter } = storageFlags;
  const { readAhead, writeCopies, heartbeat } = storageFlags;
  const [first, ...others] = options.storePaths.map((path) => resolve(path));
  if (first === undefined || others.length >= MAX_STORE_PATHS) {
    throw new OptionError(`storePaths must name 1 to ${MAX_STORE_PATHS} directories`);
  }
  const settings: StorageSettings = {
    storePaths: [first, ...others],
    trackers: (options.trackers ?? []).map((text) => checkAddress(text, DEFAULT_TRACKER_PORT)),
    host: options.host ?? host.default,
    port: options.port ?? port.default,
    group: options.group ?? group.default,
    address: options.address,
    subdirectoriesPerPath: options.subdirectoriesPerPath ?? subdirectoriesPerPath.default,
    maxIdleFiles: options.maxIdleFiles ?? 2560,
    cacheBytes: options.cacheBytes ?? cacheSize.default,
    cacheFilter: options.cacheFilter ?? cacheFilter.default,
    readAheadBytes: options.readAheadBytes ?? readAhead.default,
    readAheadShare: options.readAheadShare ?? 0.25,
    writeCopies: options.writeCopies ?? writeCopies.default,
    writeTimeoutMs: options.writeTimeoutMs ?? 5000,
    beatIntervalMs: options.beatIntervalMs ?? heartbeat.default,
    reconnectDelayMs: options.reconnectDelayMs ?? 1000,
    disk: options.disk ?? localDisk,
    environment: options.environment ?? systemEnvironment,
    onError: options.onError ?? (() => {}),
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
