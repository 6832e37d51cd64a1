import {
  checkStoreOptions,
  fromEnvironment,
  fromFile,
  fromFlags,
  fromProgram,
  invalidOption,
  type OpenOptions,
  type OptionSpec,
  type OptionTable,
  type OptionValues,
  parseOptions,
  type RawOptions,
  storeOptions,
} from '@stevedore/client';
import type { ResourcePolicy } from '@stevedore/middleware/core';
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
  downloadBuffer: {
    kind: 'size',
    default: 24 * 2 ** 20,
    minimum: 2 ** 20,
    help: 'memory for bytes that were read and that clients have not taken yet, of all downloads together',
  } as OptionSpec<number>,
  serveTrunks: {
    kind: 'boolean',
    default: false,
    help: 'serve whole trunks by their FastDFS ids too; who has one reads every file in it',
  } as OptionSpec<boolean>,
  apiKeys: {
    kind: 'text',
    default: '',
    help: 'file of API keys that writes and deletes need, made by `stevedore keys`; read again when it changes',
  } as OptionSpec<string>,
  urlSecret: {
    kind: 'list',
    default: [],
    help: 'secrets of signed URLs, which reads need then; the first signs, all are valid',
  } as OptionSpec<readonly string[]>,
  antiLeechSecret: {
    kind: 'text',
    default: '',
    help: 'secret of the token and ts that FastDFS paths need then, as the nginx module has it',
  } as OptionSpec<string>,
  antiLeechTtl: {
    kind: 'duration',
    default: 600_000,
    minimum: 1000,
    help: 'how long such a token is valid',
  } as OptionSpec<number>,
  policies: {
    kind: 'text',
    default: '',
    help: 'JSON file of upload policies by name',
  } as OptionSpec<string>,
  inlineTypes: {
    kind: 'list',
    default: [],
    help: 'media types that browsers may show in place although they might run them, sandboxed',
  } as OptionSpec<readonly string[]>,
  corsOrigins: {
    kind: 'list',
    default: [],
    help: 'origins whose pages may use the gateway, https://app.example,...; * for all',
  } as OptionSpec<readonly string[]>,
  resourcePolicy: {
    kind: 'text',
    default: 'auto',
    choices: ['auto', 'same-origin', 'same-site', 'cross-origin'],
    help: 'Cross-Origin-Resource-Policy of files: whose pages may show them; auto: same-site while the gateway is open on loopback and corsOrigins is empty, else cross-origin',
  } as OptionSpec<'auto' | ResourcePolicy>,
  hostNames: {
    kind: 'list',
    default: [],
    help: 'host names to serve beside localhost and its addresses, while the gateway is open on loopback; else every name is served',
  } as OptionSpec<readonly string[]>,
  trustProxy: {
    kind: 'list',
    default: [],
    help: 'addresses or networks of proxies whose X-Forwarded headers are believed',
  } as OptionSpec<readonly string[]>,
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

export const CONFIG_FILE = 'stevedore.config.json';

/** Checked values: flag before environment before file before default. */
export function parseGatewayOptions(
  { flags = {}, environment = {}, file = {} }: OptionSources,
  table: typeof gatewayOptions = gatewayOptions,
): GatewayOptions {
  const sources = [
    fromFlags(flags),
    fromEnvironment(table, environment),
    fromFile(CONFIG_FILE, file),
  ];
  return parseOptions(table, sources, check);
}

/** As `parseGatewayOptions`, for values a program gives. */
export function checkGatewayOptions(values: RawOptions): GatewayOptions {
  return parseOptions(gatewayOptions, [fromProgram(values)], check);
}

/** Options that contradict each other or could be guessed. */
function check(options: GatewayOptions, nameOf: (option: string) => string): void {
  checkStoreOptions(options, nameOf);
  for (const secret of options.urlSecret) {
    if (Buffer.byteLength(secret) < 16) {
      throw invalidOption(`${nameOf('urlSecret')}: 16 bytes at least`);
    }
  }
  for (const origin of options.corsOrigins) {
    if (origin === '*' || (URL.canParse(origin) && new URL(origin).origin === origin)) continue;
    throw invalidOption(
      `${nameOf('corsOrigins')}: "${origin}" is no origin; write it like https://app.example`,
    );
  }
}

/** Those that `open()` takes. */
export function openOptions(options: GatewayOptions): OpenOptions {
  const names = Object.keys(storeOptions) as (keyof typeof storeOptions)[];
  return Object.fromEntries(names.map((name) => [name, options[name]])) as OpenOptions;
}
