import {
  checkStoreOptions,
  environmentOptions,
  type OpenOptions,
  type OptionSpec,
  type OptionTable,
  type OptionValues,
  parseOptions,
  type RawOptions,
  storeOptions,
} from '@stevedore/client';
import { LOG_LEVELS, type LogLevel } from './observe/log-levels.js';

/** The options of the gateway: those of the store, and where it listens. */

export const gatewayOptions = {
  host: {
    kind: 'text',
    default: '127.0.0.1',
    help: 'address to listen on; 0.0.0.0 for every one of this machine',
  } as OptionSpec<string>,
  port: {
    kind: 'port',
    default: 8080,
    help: 'port to listen on; 0 takes a free one',
  } as OptionSpec<number>,
  ...storeOptions,
  trackerPort: { ...storeOptions.trackerPort, default: 22_122 } as OptionSpec<number>,
  storagePort: { ...storeOptions.storagePort, default: 23_000 } as OptionSpec<number>,
  serveTrunks: {
    kind: 'boolean',
    default: false,
    help: 'serve whole trunks by their FastDFS ids too; who has one reads every file in it',
  } as OptionSpec<boolean>,
  logLevel: {
    kind: 'text',
    default: 'warn',
    choices: LOG_LEVELS,
    help: 'what is logged to stderr as JSON lines: silent, error, warn, info (every request), debug',
  } as OptionSpec<LogLevel>,
} satisfies OptionTable;

export type GatewayOptions = OptionValues<typeof gatewayOptions>;

export interface OptionSources {
  readonly flags?: RawOptions;
  readonly environment?: NodeJS.ProcessEnv;
  /** Content of stevedore.config.json. */
  readonly file?: RawOptions;
}

/** Checked values: flag before environment before file before default. */
export function parseGatewayOptions(sources: OptionSources): GatewayOptions {
  const { flags = {}, environment = {}, file = {} } = sources;
  const options = parseOptions(gatewayOptions, [
    { label: 'flag', values: flags },
    { label: 'environment', values: environmentOptions(gatewayOptions, environment) },
    { label: 'stevedore.config.json', values: file },
  ]);
  checkStoreOptions(options);
  return options;
}

/** As `parseGatewayOptions`, for values a program gives. */
export function checkGatewayOptions(values: RawOptions): GatewayOptions {
  const options = parseOptions(gatewayOptions, [{ label: 'option', values }]);
  checkStoreOptions(options);
  return options;
}

/** Those that `open()` takes. */
export function openOptions(options: GatewayOptions): OpenOptions {
  const names = Object.keys(storeOptions) as (keyof typeof storeOptions)[];
  return Object.fromEntries(names.map((name) => [name, options[name]])) as OpenOptions;
}
