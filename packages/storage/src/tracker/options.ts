import type { IpWidth } from '@stevedore/protocol';
import { type Environment, systemEnvironment } from '../environment.js';
import {
  type ConnectionLimits,
  type ConnectionOptions,
  checkInteger,
  connectionLimits,
  DEFAULT_HOST,
  DEFAULT_TRACKER_PORT,
} from '../options.js';

export interface TrackerOptions extends ConnectionOptions {
  /** Address to listen on. Default 127.0.0.1. */
  readonly host?: string;
  /** Default 22122; 0 picks a free one. */
  readonly port?: number;
  /** Room that uploads must leave on every store path and group, MiB. Default 512. */
  readonly reservedSpaceMegabytes?: number;
  /** Width of addresses in answers: `wide` (46 bytes) for clusters with IPv6. Default `narrow`. */
  readonly addressWidth?: IpWidth;
  /** A storage that has not been heard of for so long gets no requests. Default 100,000. */
  readonly checkActiveIntervalMs?: number;
  readonly environment?: Environment;
  /** Hears of failures that nobody is answered with. Default: they are dropped. */
  readonly onError?: (error: Error) => void;
}

export interface TrackerSettings {
  readonly host: string;
  readonly port: number;
  readonly limits: ConnectionLimits;
  readonly reservedSpaceMegabytes: number;
  readonly addressWidth: IpWidth;
  readonly checkActiveIntervalMs: number;
  readonly environment: Environment;
  readonly onError: (error: Error) => void;
}

export function trackerSettings(options: TrackerOptions): TrackerSettings {
  const settings: TrackerSettings = {
    host: options.host ?? DEFAULT_HOST,
    port: options.port ?? DEFAULT_TRACKER_PORT,
    limits: connectionLimits(options),
    reservedSpaceMegabytes: options.reservedSpaceMegabytes ?? 512,
    addressWidth: options.addressWidth ?? 'narrow',
    checkActiveIntervalMs: options.checkActiveIntervalMs ?? 100_000,
    environment: options.environment ?? systemEnvironment,
    onError: options.onError ?? (() => {}),
  };
  checkInteger('port', settings.port, 0, 65_535);
  checkInteger('reservedSpaceMegabytes', settings.reservedSpaceMegabytes, 0, 2 ** 40);
  checkInteger('checkActiveIntervalMs', settings.checkActiveIntervalMs, 1, 86_400_000);
  return Object.freeze(settings);
}
