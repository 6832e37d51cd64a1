import { asStoreError, checkStoreOptions, type OpenOptions, storeOptions } from '@stevedore/client';
import { defaultTransferLimits, type TransferLimits } from '@stevedore/middleware/core';
import {
  fromEnvironment,
  fromFile,
  fromFlags,
  fromProgram,
  OptionError,
  type OptionTable,
  type OptionValues,
  option,
  parseOptions,
  type RawOptions,
} from '@stevedore/options';

/** The options of the gateway: those of the store, and where it listens. */

/** Here and not beside the log, which who only checks options does not load. */
const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const gatewayOptions = {
  host: option.text('127.0.0.1', 'address to listen on; 0.0.0.0 for every one of this machine'),
  port: option.port(8080, 'port to listen on; 0 takes a free one'),
  workers: option.text(
    '1',
    'processes that serve the port, each with a directory of its own in that one; auto: one per core',
    { see: 'SCALING.md#every-core' },
  ),
  ...storeOptions,
  trackerPort: { ...storeOptions.trackerPort, default: 22_122 },
  storagePort: { ...storeOptions.storagePort, default: 23_000 },
  downloadBuffer: option.size(
    '24MiB',
    'memory for bytes that were read and that clients have not taken yet, of all downloads together',
    { minimum: '1MiB', see: 'HTTP.md#slow-clients' },
  ),
  serveTrunks: option.boolean(
    false,
    'serve whole trunks by their FastDFS ids too; anyone who has one can read every file in it',
  ),
  apiKeys: option.text(
    '',
    'file of the API keys that uploads and deletions need, made by `stevedore keys`; read again when it changes',
    { see: 'HTTP.md#who-may' },
  ),
  urlSecret: option.list(
    [],
    'secrets of signed URLs, which reads need then; the first signs, all are valid',
    { see: 'HTTP.md#who-may' },
  ),
  antiLeechSecret: option.text(
    '',
    'secret of the token that FastDFS paths need then, as the FastDFS nginx module has it',
    { see: 'HTTP.md#fastdfs-paths' },
  ),
  antiLeechTtl: option.duration('600s', 'how long such a token is valid', { minimum: '1s' }),
  policies: option.text('', 'JSON file of upload policies by name', { see: 'HTTP.md#policies' }),
  inlineTypes: option.list(
    [],
    'media types that browsers may show in place, sandboxed, although they might run them',
  ),
  corsOrigins: option.list(
    [],
    'origins whose pages may use the gateway, https://app.example,...; * for all',
  ),
  resourcePolicy: option.choice(
    'auto',
    ['auto', 'same-origin', 'same-site', 'cross-origin'],
    'Cross-Origin-Resource-Policy of files: whose pages may show them; auto: same-site while the gateway is open on loopback and corsOrigins is empty, else cross-origin',
  ),
  hostNames: option.list(
    [],
    'host names to serve beside localhost and its addresses, while the gateway is open on loopback; else every name is served',
  ),
  pictureSizes: option.list(
    [],
    'sizes in which pictures are shown, 320,x200,640x480,...; signed URLs may ask for any; needs sharp',
    { see: 'HTTP.md#pictures' },
  ),
  pictureProcesses: option.integer(2, 'processes that make pictures', { minimum: 1, maximum: 64 }),
  trustProxy: option.list(
    [],
    'addresses or networks of proxies whose X-Forwarded headers are believed',
  ),
  logLevel: option.choice(
    'warn',
    LOG_LEVELS,
    'what is logged to stderr as JSON lines; info: every request',
  ),
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

/** As `parseGatewayOptions`, for values a program gives; throws StoreError. */
export function checkGatewayOptions(values: RawOptions): GatewayOptions {
  return asStoreError(() => parseOptions(gatewayOptions, [fromProgram(values)], check));
}

/** Options that contradict each other or could be guessed. */
function check(options: GatewayOptions, nameOf: (option: string) => string): void {
  checkStoreOptions(options, nameOf);
  if (!/^(auto|[1-9]\d?)$/.test(options.workers)) {
    throw new OptionError(`${nameOf('workers')}: a number from 1 to 99, or auto`);
  }
  for (const size of options.pictureSizes) {
    if (/^(?=.*[1-9])\d{0,4}(x\d{1,4})?$/.test(size)) continue;
    throw new OptionError(
      `${nameOf('pictureSizes')}: "${size}" is no size; write 320, x200 or 640x480`,
    );
  }
  for (const secret of options.urlSecret) {
    if (Buffer.byteLength(secret) < 16) {
      throw new OptionError(`${nameOf('urlSecret')}: 16 bytes at least`);
    }
  }
  for (const origin of options.corsOrigins) {
    if (origin === '*' || (URL.canParse(origin) && new URL(origin).origin === origin)) continue;
    throw new OptionError(
      `${nameOf('corsOrigins')}: "${origin}" is no origin; write it like https://app.example`,
    );
  }
}

/** Those that `open()` takes. */
export function openOptions(options: GatewayOptions): OpenOptions {
  const names = Object.keys(storeOptions) as (keyof typeof storeOptions)[];
  return Object.fromEntries(names.map((name) => [name, options[name]])) as OpenOptions;
}

/**
 * Every bound of the gateway: those of bodies, of downloads and of connections.
 * Whatever a client does, what it may take of memory, time and connections ends
 * at one of these.
 */

export interface Limits extends TransferLimits {
  /** From the first byte of a request to the end of its headers. */
  readonly headerTimeoutMs: number;
  /** An open connection without a request. */
  readonly keepAliveMs: number;
  /** A connection on which nothing moves in either direction. */
  readonly idleMs: number;
  /** When one more comes, one without a request makes room, or a stalled download. */
  readonly maxConnections: number;
  /** What is under way at shutdown may take this long. */
  readonly drainMs: number;
}

export const defaultLimits: Limits = Object.freeze({
  ...defaultTransferLimits,
  headerTimeoutMs: 10_000,
  keepAliveMs: 60_000,
  idleMs: 120_000,
  maxConnections: 10_000,
  drainMs: 8000,
});

/** Of the container, for unfinished uploads of one client. */
const CLIENT_SHARE = 1 / 2;

/** With those that are options. */
export function limitsOf(options: GatewayOptions, others: Partial<Limits> = {}): Limits {
  const { maxFileSize, downloadBuffer, containerSize } = options;
  return Object.freeze({
    ...defaultLimits,
    ...others,
    maxFileBytes: maxFileSize,
    maxUnsentBytes: downloadBuffer,
    maxClientBytes: containerSize * CLIENT_SHARE,
  });
}
