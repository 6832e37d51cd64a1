import { defaultsOf, OptionError, type OptionValues } from '@stevedore/options';
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

type Flags = OptionValues<typeof trackerFlags>;

export interface TrackerOptions
  extends Partial<Omit<Flags, 'addressWidth'>>,
    ConnectionOptions,
    AccessOptions {
  /** Space that uploads leave free in every store path and group, MiB. Default 512. */
  readonly reservedSpaceMegabytes?: number;
  /** Width of addresses in answers: `wide` (46 bytes) for IPv6. Default: as `storageIds` need. */
  readonly addressWidth?: IpWidth;
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
    ...defaultsOf(trackerFlags),
    reservedSpaceMegabytes: 512,
    checkActiveIntervalMs: 100_000,
    environment: systemEnvironment,
    onError: () => {},
    addressWidth: storageIds.useIpv6 ? 'wide' : 'narrow',
    ...options,
    storageIds,
    limits: connectionLimits(options),
    access: accessSettings(options),
  };
  if (settings.storeLookup === 'group' && !isGroupName(settings.storeGroup)) {
    throw new OptionError('storeLookup "group" needs storeGroup');
  }
  if (settings.storeLookup !== 'group' && settings.storeGroup !== '') {
    throw new OptionError('storeGroup goes with storeLookup "group" only');
  }
  return Object.freeze(settings);
}
