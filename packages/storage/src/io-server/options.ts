import { resolve } from 'node:path';
import { type Disk, localDisk } from '@stevedore/disk';
import { type Environment, systemEnvironment } from '../environment.js';
import { OptionError } from '../errors.js';
import { type AccessOptions, type AccessSettings, accessSettings } from '../net/access.js';
import {
  type ConnectionLimits,
  type ConnectionOptions,
  checkInteger,
  connectionLimits,
  DEFAULT_HOST,
  DEFAULT_IO_PORT,
  DEFAULT_TRACKER_PORT,
  type Endpoint,
  parseEndpoint,
} from '../options.js';

export interface IoServerOptions extends ConnectionOptions, AccessOptions {
  /** Where the parts go; made if it is not there. */
  readonly directory: string;
  /** Trackers to report to, `host:port`. None: only storages that know it already find it. */
  readonly trackers?: readonly string[];
  /** Address to listen on, and to connect to trackers from. Default 127.0.0.1. */
  readonly host?: string;
  /** Default 23100; 0 picks a free one. */
  readonly port?: number;
  /** Room that parts must leave on the disk, MiB. Default 64. */
  readonly reservedSpaceMegabytes?: number;
  /** How often trackers are told that it lives. Default 1000. */
  readonly reportIntervalMs?: number;
  /** Pause before a lost tracker is tried again. Default 1000. */
  readonly reconnectDelayMs?: number;
  readonly disk?: Disk;
  readonly environment?: Environment;
  /** Hears of failures that nobody is answered with. Default: they are dropped. */
  readonly onError?: (error: Error) => void;
}

export interface IoServerSettings
  extends Required<
    Omit<IoServerOptions, 'trackers' | keyof ConnectionOptions | keyof AccessOptions>
  > {
  readonly trackers: readonly Endpoint[];
  readonly limits: ConnectionLimits;
  readonly access: AccessSettings;
}

const MAX_TRACKERS = 16;
const DAY_MS = 86_400_000;

export function ioServerSettings(options: IoServerOptions): IoServerSettings {
  const settings: IoServerSettings = {
    directory: resolve(options.directory),
    trackers: (options.trackers ?? []).map((text) => parseEndpoint(text, DEFAULT_TRACKER_PORT)),
    host: options.host ?? DEFAULT_HOST,
    port: options.port ?? DEFAULT_IO_PORT,
    reservedSpaceMegabytes: options.reservedSpaceMegabytes ?? 64,
    reportIntervalMs: options.reportIntervalMs ?? 1000,
    reconnectDelayMs: options.reconnectDelayMs ?? 1000,
    disk: options.disk ?? localDisk,
    environment: options.environment ?? systemEnvironment,
    onError: options.onError ?? (() => {}),
    limits: connectionLimits(options),
    access: accessSettings(options),
  };
  if (settings.trackers.length > MAX_TRACKERS) {
    throw new OptionError(`more than ${MAX_TRACKERS} trackers`);
  }
  checkInteger('port', settings.port, 0, 65_535);
  checkInteger('reservedSpaceMegabytes', settings.reservedSpaceMegabytes, 0, 2 ** 40);
  checkInteger('reportIntervalMs', settings.reportIntervalMs, 1, DAY_MS);
  checkInteger('reconnectDelayMs', settings.reconnectDelayMs, 1, DAY_MS);
  return Object.freeze(settings);
}
