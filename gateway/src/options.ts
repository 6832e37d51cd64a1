import type { OpenOptions } from '@stevedore/client';
import { asStoreError, checkStoreOptions, storeOptions } from '@stevedore/client/internal';
import { defaultTransferLimits, type TransferLimits } from '@stevedore/middleware/core';
import {
  fromEnvironment,
  fromFile,
  fromFlags,
  fromProgram,
  type OptionTable,
  type OptionValues,
  option,
  parseOptions,
  type RawOptions,
} from '@stevedore/options';
import { parseSize } from '@stevedore/pictures';
import { trustedProxies } from './http/addresses.js';
import { parseHost, parseOrigin } from './http/origins.js';
import { parsePublicUrl } from './http/public-address.js';
import { LOG_FORMATS } from './observe/log-format.js';
import { ownUrlOf } from './own-url.js';

/** The options of the gateway: those of the store, plus HTTP, access and logging. */

/** Declared here so that checking options does not load the logger. */
const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Of every command that runs until a signal. */
export const logOption = {
  log: option.choice(
    'auto',
    LOG_FORMATS,
    'format of stdout and stderr; auto: pretty on a terminal, else JSON',
    { see: '#logs' },
  ),
} satisfies OptionTable;

export const gatewayOptions = {
  host: option.text('127.0.0.1', 'address to listen on; 0.0.0.0: all addresses of this machine'),
  port: option.port(8080, 'port to listen on; 0 picks a free one'),
  workers: option.text('1', 'processes that serve the port; auto: one per core', {
    see: 'SCALING.md#every-core',
  }),
  ...storeOptions,
  trackerPort: { ...storeOptions.trackerPort, default: 22_122 },
  storagePort: { ...storeOptions.storagePort, default: 23_000 },
  downloadBuffer: option.size(
    '24MiB',
    'memory for bytes of downloads that clients have not yet accepted',
    { minimum: '1MiB', see: 'HTTP.md#slow-clients' },
  ),
  serveTrunks: option.boolean(false, 'also serve whole trunks by their FastDFS ids'),
  apiKeys: option.text(
    '',
    'file of API keys, made by `stevedore keys`; uploads and deletions then need a key',
    { see: 'HTTP.md#access-control' },
  ),
  urlSecret: option.list(
    [],
    'secrets for signed URLs, which reads then need; the first signs, all are accepted',
    { see: 'HTTP.md#access-control' },
  ),
  antiLeechSecret: option.text(
    '',
    'secret of the anti-leech token that FastDFS paths then need, as in the nginx module',
    { see: 'HTTP.md#fastdfs-paths' },
  ),
  antiLeechTtl: option.duration('600s', 'how long an anti-leech token is valid', { minimum: '1s' }),
  policies: option.text('', 'JSON file with upload policies by name', { see: 'HTTP.md#policies' }),
  inlineTypes: option.list(
    [],
    'media types that browsers may show inline although they can contain scripts',
  ),
  corsOrigins: option.list(
    [],
    'origins whose pages may use the gateway, https://app.example,...; *: all',
  ),
  resourcePolicy: option.choice(
    'auto',
    ['auto', 'same-origin', 'same-site', 'cross-origin'],
    'Cross-Origin-Resource-Policy of files; auto: same-site for an open gateway on loopback without corsOrigins, else cross-origin',
  ),
  hostNames: option.list(
    [],
    'host names that an open gateway on loopback serves besides localhost',
  ),
  pictureSizes: option.list(
    [],
    'sizes in which pictures are shown, 320,x200,640x480,...; signed URLs may ask for any; needs sharp',
    { see: 'HTTP.md#pictures' },
  ),
  pictureProcesses: option.integer(2, 'processes that make pictures', { minimum: 1, maximum: 64 }),
  trustProxy: option.list(
    [],
    'proxies whose X-Forwarded-For and X-Forwarded-Prefix count: addresses, networks, or loopback',
    { see: 'guides/deployment.md#nginx-in-front' },
  ),
  publicUrl: option.text(
    '',
    'beginning of every URL in an answer, https://files.example.com/storage or /storage; a proxy removes its path',
    { see: 'HTTP.md#below-a-path' },
  ),
  logLevel: option.choice('warn', LOG_LEVELS, 'level of the log; info logs every request'),
  ...logOption,
} satisfies OptionTable;

export type GatewayOptions = OptionValues<typeof gatewayOptions>;

export interface OptionSources {
  readonly flags?: RawOptions;
  readonly environment?: NodeJS.ProcessEnv;
  /** Content of stevedore.config.json. */
  readonly file?: RawOptions;
}

export const CONFIG_FILE = 'stevedore.config.json';

/**
 * Parses and checks options. Precedence: flag, environment, file, default. With a map, other gateways
 * reach this one where it listens, unless `peerUrl` says something else.
 */
export function parseGatewayOptions(
  { flags = {}, environment = {}, file = {} }: OptionSources,
  table: typeof gatewayOptions = gatewayOptions,
): GatewayOptions {
  const sources = [
    fromFlags(flags),
    fromEnvironment(table, environment),
    fromFile(CONFIG_FILE, file),
  ];
  const options = parseOptions(table, sources, check);
  if (options.map === '' || options.peerUrl !== '') return options;
  return { ...options, peerUrl: ownUrlOf(options) };
}

/** As `parseGatewayOptions`, for values a program gives; throws StoreError. */
export function checkGatewayOptions(values: RawOptions): GatewayOptions {
  return asStoreError(() => parseOptions(gatewayOptions, [fromProgram(values)], check));
}

/** Yields a sentence for each contradiction, and for each secret that is too short. */
function* check(options: GatewayOptions, nameOf: (option: string) => string): Generator<string> {
  yield* checkStoreOptions(options, nameOf);
  if (!/^(auto|[1-9]\d?)$/.test(options.workers)) {
    yield `${nameOf('workers')} must be a number from 1 to 99, or auto`;
  }
  for (const size of options.pictureSizes) {
    if (parseSize(size)) continue;
    yield `${nameOf('pictureSizes')}: "${size}" is no size; write 320, x200 or 640x480`;
  }
  for (const secret of options.urlSecret) {
    if (Buffer.byteLength(secret) < 16) {
      yield `${nameOf('urlSecret')}: a secret needs at least 16 bytes`;
    }
  }
  try {
    trustedProxies(options.trustProxy);
  } catch (error) {
    yield `${nameOf('trustProxy')}: ${(error as Error).message}; write 10.0.0.5, 10.0.0.0/8 or loopback`;
  }
  if (parsePublicUrl(options.publicUrl) === undefined) {
    yield `${nameOf('publicUrl')}: "${options.publicUrl}" is no URL without a query; write https://files.example.com/storage or /storage`;
  }
  for (const origin of options.corsOrigins) {
    if (origin === '*' || parseOrigin(origin)) continue;
    yield `${nameOf('corsOrigins')}: "${origin}" is not an origin; write it like https://app.example`;
  }
  for (const name of options.hostNames) {
    if (parseHost(name)) continue;
    yield `${nameOf('hostNames')}: "${name}" is not a host name; write it like files.example.com`;
  }
}

export function openOptions(options: GatewayOptions): OpenOptions {
  const names = Object.keys(storeOptions) as (keyof typeof storeOptions)[];
  return Object.fromEntries(names.map((name) => [name, options[name]])) as OpenOptions;
}

/**
 * The gateway's limits on bodies, downloads and connections. They bound the memory, time and
 * connections that any client can use.
 */

export interface Limits extends TransferLimits {
  /** From the first byte of a request to the end of its headers. */
  readonly headerTimeoutMs: number;
  /** An open connection without a request: longer than a proxy keeps it for its next one. */
  readonly keepAliveMs: number;
  /** A connection without progress in either direction. */
  readonly idleMs: number;
  /** One more replaces an idle connection, or a stalled download. */
  readonly maxConnections: number;
  /** How long a shutdown waits for requests in progress. */
  readonly drainMs: number;
}

export const defaultLimits: Limits = Object.freeze({
  ...defaultTransferLimits,
  maxClientUploads: 1000,
  headerTimeoutMs: 10_000,
  keepAliveMs: 75_000,
  idleMs: 120_000,
  maxConnections: 10_000,
  drainMs: 8000,
});

/** Share of the container for the bodies that one client is sending; one file always fits. */
const CLIENT_SHARE = 1 / 4;
const CLIENT_FILE_SHARE = 1 / 2;

export function limitsOf(options: GatewayOptions, others: Partial<Limits> = {}): Limits {
  const { maxFileSize, downloadBuffer, containerSize } = options;
  return Object.freeze({
    ...defaultLimits,
    ...others,
    maxFileBytes: maxFileSize,
    maxUnsentBytes: downloadBuffer,
    maxClientBytes: Math.max(
      containerSize * CLIENT_SHARE,
      Math.min(maxFileSize, containerSize * CLIENT_FILE_SHARE),
    ),
  });
}
