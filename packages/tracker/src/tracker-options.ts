import { OptionError } from '@stevedore/options';
import { type IpWidth, isGroupName } from '@stevedore/protocol';
import {
  type AccessOptions,
  type AccessSettings,
  accessSettings,
  type ConnectionLimits,
  type ConnectionOptions,
  connectionLimits,
  type Environment,
  systemEnvironment,
} from '@stevedore/wire';
import { trackerFlags } from './flags.js';
import { StorageIds } from './storage-ids.js';

/** How the group of an upload is chosen. */
type StoreLookup = 'round-robin' | 'group' | 'most-free';

export interface TrackerOptions extends ConnectionOptions, AccessOptions {
  /** Address to listen on. Default 127.0.0.1. */
  readonly host?: string;
  /** Default 22122; 0 picks a free one. */
  readonly port?: number;
  /** Space that uploads leave free in every store path and group, MiB. Default 512. */
  readonly reservedSpaceMegabytes?: number;
  /** Width of addresses in answers: `wide` (46 bytes) for IPv6. Default: as `storageIds` need. */
  readonly addressWidth?: IpWidth;
  /**
   * Group of an upload: in turns, always `storeGroup`, or the one with most free space.
   * Default `round-robin`.
   */
  readonly storeLookup?: StoreLookup;
  /** The group of all uploads, for the lookup `group`. */
  readonly storeGroup?: string;
  /**
   * Storages by id, `100001 group1 10.0.0.7:23000`. Others may not join, and file names contain
   * ids instead of addresses. Default: none; addresses identify storages.
   */
  readonly storageIds?: readonly string[];
  /** A storage that is silent for longer gets no requests. Default 100,000. */
  readonly checkActiveIntervalMs?: number;
  readonly environment?: Environment;
  /** Called with errors that no answer reports. Default: they are ignored. */
  readonly onError?: (error: Error) => void;
}

export interface TrackerSettings
  extends Required<
    Omit<TrackerOptions, 'storageIds' | keyof ConnectionOptions | keyof AccessOptions>
  > {
  readonly limits: ConnectionLimits;
  readonly access: AccessSettings;
  readonly storageIds: StorageIds;
}

export function trackerSettings(options: TrackerOptions): TrackerSettings {
  const storageIds = new StorageIds(options.storageIds ?? []);
  const settings: TrackerSettings = {
    host: options.host ?? trackerFlags.host.default,
    port: options.port ?? trackerFlags.port.default,
    reservedSpaceMegabytes: options.reservedSpaceMegabytes ?? 512,
    checkActiveIntervalMs: options.checkActiveIntervalMs ?? 100_000,
    limits: connectionLimits(options),
    access: accessSettings(options),
    storeLookup: options.storeLookup ?? trackerFlags.storeLookup.default,
    storeGroup: options.storeGroup ?? trackerFlags.storeGroup.default,
    storageIds,
    addressWidth: options.addressWidth ?? (storageIds.useIpv6 ? 'wide' : 'narrow'),
    environment: options.environment ?? systemEnvironment,
    onError: options.onError ?? (() => {}),
  };
  if (settings.storeLookup === 'group' && !isGroupName(settings.storeGroup)) {
    throw new OptionError('storeLookup "group" needs storeGroup');
  }
  if (settings.storeLookup !== 'group' && settings.storeGroup !== '') {
    throw new OptionError('storeGroup goes with storeLookup "group" only');
  }
  return Object.freeze(settings);
}
