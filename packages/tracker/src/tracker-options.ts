import { type IpWidth, isGroupName } from '@stevedore/protocol';
import {
  type AccessOptions,
  type AccessSettings,
  accessSettings,
  type ConnectionLimits,
  type ConnectionOptions,
  checkInteger,
  connectionLimits,
  DEFAULT_HOST,
  DEFAULT_TRACKER_PORT,
  type Environment,
  OptionError,
  systemEnvironment,
} from '@stevedore/wire';
import { StorageIds } from './storage-ids.js';

/** How the group of an upload is chosen. */
type StoreLookup = 'round-robin' | 'group' | 'most-free';

export interface TrackerOptions extends ConnectionOptions, AccessOptions {
  /** Address to listen on. Default 127.0.0.1. */
  readonly host?: string;
  /** Default 22122; 0 picks a free one. */
  readonly port?: number;
  /** Room that uploads must leave on every store path and group, MiB. Default 512. */
  readonly reservedSpaceMegabytes?: number;
  /** Width of addresses in answers: `wide` (46 bytes) for clusters with IPv6. Default: as `storageIds` need. */
  readonly addressWidth?: IpWidth;
  /**
   * Group of an upload: in turns, always `storeGroup`, or the one with most free room.
   * Default `round-robin`.
   */
  readonly storeLookup?: StoreLookup;
  /** The group of all uploads, for the lookup `group`. */
  readonly storeGroup?: string;
  /** Storage of an upload: in turns, the first by id, or the lowest priority number. Default `round-robin`. */
  readonly storeServer?: 'round-robin' | 'first' | 'priority';
  /** Store path of an upload: in turns, or the emptiest. Default `round-robin`. */
  readonly storePath?: 'round-robin' | 'most-free';
  /** Storage of a download: in turns over those that have the file, or its source. Default `round-robin`. */
  readonly downloadServer?: 'round-robin' | 'source';
  /**
   * Storages by id, `100001 group1 10.0.0.7:23000`; others may not join, and ids stand
   * in file names instead of addresses. Default: none, storages are their addresses.
   */
  readonly storageIds?: readonly string[];
  /** A storage that has not been heard of for so long gets no requests. Default 100,000. */
  readonly checkActiveIntervalMs?: number;
  readonly environment?: Environment;
  /** Called with failures that no answer carries. Default: they are dropped. */
  readonly onError?: (error: Error) => void;
}

export interface TrackerSettings {
  readonly host: string;
  readonly port: number;
  readonly limits: ConnectionLimits;
  readonly access: AccessSettings;
  readonly reservedSpaceMegabytes: number;
  readonly addressWidth: IpWidth;
  readonly storeLookup: StoreLookup;
  readonly storeGroup: string;
  readonly storeServer: 'round-robin' | 'first' | 'priority';
  readonly storePath: 'round-robin' | 'most-free';
  readonly downloadServer: 'round-robin' | 'source';
  readonly storageIds: StorageIds;
  readonly checkActiveIntervalMs: number;
  readonly environment: Environment;
  readonly onError: (error: Error) => void;
}

export function trackerSettings(options: TrackerOptions): TrackerSettings {
  const storageIds = new StorageIds(options.storageIds ?? []);
  const settings: TrackerSettings = {
    host: options.host ?? DEFAULT_HOST,
    port: options.port ?? DEFAULT_TRACKER_PORT,
    limits: connectionLimits(options),
    access: accessSettings(options),
    reservedSpaceMegabytes: options.reservedSpaceMegabytes ?? 512,
    storeLookup: options.storeLookup ?? 'round-robin',
    storeGroup: options.storeGroup ?? '',
    storeServer: options.storeServer ?? 'round-robin',
    storePath: options.storePath ?? 'round-robin',
    downloadServer: options.downloadServer ?? 'round-robin',
    storageIds,
    addressWidth: options.addressWidth ?? (storageIds.useIpv6 ? 'wide' : 'narrow'),
    checkActiveIntervalMs: options.checkActiveIntervalMs ?? 100_000,
    environment: options.environment ?? systemEnvironment,
    onError: options.onError ?? (() => {}),
  };
  checkInteger('port', settings.port, 0, 65_535);
  checkInteger('reservedSpaceMegabytes', settings.reservedSpaceMegabytes, 0, 2 ** 40);
  checkInteger('checkActiveIntervalMs', settings.checkActiveIntervalMs, 1, 86_400_000);
  if (settings.storeLookup === 'group' && !isGroupName(settings.storeGroup)) {
    throw new OptionError('storeLookup "group" needs storeGroup');
  }
  if (settings.storeLookup !== 'group' && settings.storeGroup !== '') {
    throw new OptionError('storeGroup goes with storeLookup "group" only');
  }
  return Object.freeze(settings);
}
