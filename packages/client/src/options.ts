import { totalmem } from 'node:os';
import {
  fromProgram,
  OptionError,
  type OptionTable,
  type OptionValues,
  option,
  parseOptions,
} from '@stevedore/options';
import { StoreError } from '@stevedore/staging/errors';
import type { OpenOptions } from './given-options.js';

/** The options of `open()`. Each is also a flag and an environment variable of the gateway. */

/** An eighth of the memory available to this process, in bytes. */
function eighthOfMemory(): number {
  const limit = process.constrainedMemory?.() ?? 0;
  const all = totalmem();
  return Math.floor((limit > 0 && limit < all ? limit : all) / 8);
}

export const storeOptions = {
  directory: option.text(
    './stevedore-data',
    'directory of the container, the FileMap and the embedded node',
  ),
  trackers: option.list([], 'trackers of a FastDFS cluster, HOST:PORT,...; none: an embedded node'),
  connections: option.integer(
    16,
    'most connections to one tracker or storage, for reading and for merging each',
    { minimum: 1, maximum: 1024 },
  ),
  map: option.text(
    '',
    'map of a deployment, postgres://USER@HOST/DATABASE, by which every server serves every key',
    { see: 'SCALING.md' },
  ),
  peerUrl: option.text(
    '',
    'URL at which other servers reach this one; none: where a gateway listens, unless it is on loopback; without it, they read its merged files only',
    { see: 'SCALING.md' },
  ),
  stagedCopies: option.choice(
    'auto',
    ['auto', 1, 2],
    'machines that have an upload when it is acknowledged; auto: 2 with a map, but 1 while no other gateway, the partner, can keep a copy',
    { see: 'SCALING.md' },
  ),
  partner: option.text('', 'URL of the partner; none: the deployment chooses one', {
    see: 'SCALING.md',
  }),
  adoptAfter: option.duration(
    '5m',
    'how long another gateway is silent in the map before this one adopts its files; 0: never by itself',
    { see: 'SCALING.md' },
  ),
  heldSize: option.size('20GiB', 'disk space for copies held for other gateways', {
    minimum: '1MiB',
  }),
  trackerPort: option.port(0, 'port of the embedded tracker; 0 picks a free one'),
  storagePort: option.port(0, 'port of the embedded storage; 0 picks a free one'),
  metadataTier: option.boolean(
    false,
    'the embedded storage keeps small files and hot slices as rows',
    { see: '../packages/tiering/FORMAT.md' },
  ),
  clusterSecretFile: option.text(
    '',
    'file with the secret of trackers and storages; of several lines, the first is used',
    { see: 'OPERATIONS.md#securing-trackers-and-storages' },
  ),
  trunkSize: option.size('64MiB', 'largest size of a trunk', { minimum: '1MiB', maximum: '2GiB' }),
  mergeMaxAge: option.duration('60s', 'longest time a file waits to be packed into a trunk', {
    minimum: '10ms',
  }),
  idMaxAge: option.duration(
    '10m',
    'longest time until a file has its FastDFS id; until then thin trunks are joined; 0: never',
    { see: 'MERGING.md' },
  ),
  smallFileLimit: option.size('4MiB', 'largest file that is packed into a trunk', {
    minimum: '1B',
    maximum: '16MiB',
  }),
  maxFileSize: option.size('1GiB', 'largest file that is accepted', { minimum: '1B' }),
  unfinishedAge: option.duration('1d', 'age at which an unfinished resumable upload is removed', {
    minimum: '1s',
  }),
  directMaxWait: option.duration('100ms', 'longest time that direct mode collects files'),
  directBuffer: option.size('4MiB', 'most bytes that direct mode collects', {
    minimum: '1B',
    maximum: '64MiB',
  }),
  containerSize: option.size(
    '20GiB',
    'disk space for staged files; when it is full, uploads are refused',
    { minimum: '1MiB' },
  ),
  retain: option.size(
    '1GiB',
    'disk space for read copies of files in FastDFS, the oldest go first',
  ),
  derivedSize: option.size(
    '1GiB',
    'bytes of all derived files together, such as pictures in other sizes; the oldest go first',
    { minimum: '1MiB' },
  ),
  confirmCopies: option.integer(
    0,
    'storages that have a trunk before its files may leave this disk; 0: two if the storage group has two active, else one',
    { maximum: 32 },
  ),
  scrubRate: option.size(
    '1MiB',
    'most bytes per second that the background scrub reads; 0 disables it',
  ),
  cacheSize: option.size(
    `${eighthOfMemory()}B`,
    'memory for files just uploaded or read; 0 disables it',
    { shown: 'an eighth of the memory' },
  ),
  cacheFilter: option.boolean(false, 'put a Bloom filter in front of the cache'),
  readAhead: option.size(
    '1MiB',
    'bytes to read at once of an affinity group; 0 reads each file alone',
    { maximum: '16MiB' },
  ),
  durability: option.choice(
    'sync',
    ['sync', 'os'],
    'when an upload is acknowledged; sync: it is on disk; os: the operating system has it',
  ),
} satisfies OptionTable;

/** The part of `cacheSize` for files just uploaded; the rest is for files that were read. */
export function tailBytesOf(cacheSize: number): number {
  return Math.floor(cacheSize / 2);
}

export type StoreOptions = OptionValues<typeof storeOptions>;

export function parseStoreOptions(raw: OpenOptions): StoreOptions {
  return asStoreError(() => parseOptions(storeOptions, [fromProgram(raw)], checkStoreOptions));
}

/** Runs `parse` and converts an OptionError into a StoreError, for options given by a program. */
export function asStoreError<Options>(parse: () => Options): Options {
  try {
    return parse();
  } catch (error) {
    throw error instanceof OptionError ? invalidOption(error.message) : error;
  }
}

export function invalidOption(message: string): StoreError {
  return new StoreError('invalid_option', message);
}

/** True for a URL at which a gateway can be asked: HTTP, with nothing but a path behind the host. */
export function isGatewayUrl(url: string): boolean {
  if (!/^https?:\/\/[^/]/.test(url) || !URL.canParse(url)) return false;
  const { username, password, search, hash } = new URL(url);
  return username + password + search + hash === '';
}

/** Yields a sentence for each contradiction. `nameOf` returns the name by which users know an option. */
export function* checkStoreOptions(
  options: StoreOptions,
  nameOf: (option: string) => string,
): Generator<string> {
  if (options.peerUrl !== '' && !isGatewayUrl(options.peerUrl)) {
    yield `${nameOf('peerUrl')}: "${options.peerUrl}" is not the URL of a gateway; write it like http://10.0.0.5:8080`;
  }
  if (options.peerUrl !== '' && options.map === '') {
    yield `${nameOf('peerUrl')} needs ${nameOf('map')}`;
  }
  if (options.stagedCopies === 2 && options.map === '') {
    yield `${nameOf('stagedCopies')} 2 needs ${nameOf('map')}`;
  }
  if (options.partner !== '' && (options.map === '' || options.stagedCopies === 1)) {
    yield `${nameOf('partner')} needs ${nameOf('map')}, and ${nameOf('stagedCopies')} not to be 1`;
  }
  if (options.partner !== '' && !isGatewayUrl(options.partner)) {
    yield `${nameOf('partner')}: "${options.partner}" is not the URL of a gateway; write it like http://10.0.0.6:8080`;
  }
  const trunkSize = nameOf('trunkSize');
  if (options.smallFileLimit > options.trunkSize / 2) {
    yield `${nameOf('smallFileLimit')} must be at most half of ${trunkSize}, or trunks cannot be filled`;
  }
  if (options.containerSize < options.trunkSize * 2) {
    yield `${nameOf('containerSize')} must be at least twice ${trunkSize}, or nothing can be merged`;
  }
}

/** How long `flush` waits, for any store. */
const DEFAULT_FLUSH_MS = 60_000;
const MAX_FLUSH_MS = 3_600_000;

/** Throws `invalid_option`. */
export function flushTimeoutOf({
  timeoutMs = DEFAULT_FLUSH_MS,
}: {
  readonly timeoutMs?: number | undefined;
}): number {
  if (Number.isInteger(timeoutMs) && timeoutMs >= 1 && timeoutMs <= MAX_FLUSH_MS) return timeoutMs;
  throw invalidOption(`timeoutMs: a whole number from 1 to ${MAX_FLUSH_MS} is needed`);
}
