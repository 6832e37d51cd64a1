import { totalmem } from 'node:os';
import {
  fromProgram,
  OptionError,
  type OptionTable,
  type OptionValues,
  option,
  parseOptions,
  type RawOptions,
} from '@stevedore/options';
import { StoreError } from '@stevedore/staging/errors';

/** The options of `open()`: every one is a flag and an environment variable of the gateway too. */

export type Durability = 'sync' | 'os';

/** Of what this process may use, in bytes. */
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
  trackers: option.list(
    [],
    'trackers of a FastDFS cluster, HOST:PORT,...; none: an embedded tracker and storage',
  ),
  map: option.text(
    '',
    'map of a deployment of several servers, postgres://USER@HOST/DATABASE: with it a key is good at every server',
    { see: 'SCALING.md' },
  ),
  peerUrl: option.text(
    '',
    'where the other servers of the deployment reach this one, http://10.0.0.5:8080; empty: only merged files are read elsewhere',
    { see: 'SCALING.md' },
  ),
  stagedCopies: option.integer(
    1,
    'disks that have an upload before it is acknowledged; 2: another gateway of the deployment keeps a copy until the file is merged',
    { minimum: 1, maximum: 2, see: 'SCALING.md' },
  ),
  partner: option.text(
    '',
    'the gateway that keeps that copy, http://10.0.0.6:8080; empty: one of the deployment is chosen',
    { see: 'SCALING.md' },
  ),
  partnerAway: option.choice(
    'refuse',
    ['refuse', 'alone'],
    'what happens while it is away: refuse: uploads and deletions are refused; alone: they are acknowledged with one copy',
  ),
  heldSize: option.size('20GiB', 'what copies for other gateways may take on this disk', {
    minimum: '1MiB',
  }),
  trackerPort: option.port(0, 'port of the embedded tracker; 0 takes a free one'),
  storagePort: option.port(0, 'port of the embedded storage; 0 takes a free one'),
  metadataTier: option.boolean(
    false,
    'the embedded storage keeps small files of FastDFS clients, and slices that are read often, as rows beside their metadata',
    { see: '../packages/tiering/FORMAT.md' },
  ),
  clusterSecretFile: option.text(
    '',
    'file of the secret that trackers and storages ask for, the embedded ones too; of several, one a line, the first is used',
    { see: 'OPERATIONS.md#who-may-use-the-ports-of-trackers-and-storages' },
  ),
  trunkSize: option.size('64MiB', 'longest trunk', { minimum: '1MiB', maximum: '2GiB' }),
  mergeMaxAge: option.duration('60s', 'longest time that a file waits to be packed', {
    minimum: '10ms',
  }),
  idMaxAge: option.duration(
    '7d',
    'longest time until a file has its FastDFS id; until then trunks that are not full are joined into full ones; 0 gives ids at once and joins nothing',
    { see: 'MERGING.md' },
  ),
  smallFileLimit: option.size(
    '4MiB',
    'longest file that is packed into a trunk; longer ones are stored whole',
    { minimum: '1B', maximum: '16MiB' },
  ),
  maxFileSize: option.size('1GiB', 'longest file; a longer upload is refused', { minimum: '1B' }),
  unfinishedAge: option.duration(
    '1d',
    'age at which an upload in several requests that was not finished is removed',
    { minimum: '1s' },
  ),
  directMaxWait: option.duration(
    '100ms',
    'longest time that files put in direct mode are collected',
  ),
  directBuffer: option.size(
    '4MiB',
    'files put in direct mode that are written without waiting any longer',
    { minimum: '1B', maximum: '64MiB' },
  ),
  containerSize: option.size(
    '20GiB',
    'what staged files may take on this disk before uploads are refused',
    { minimum: '1MiB' },
  ),
  retain: option.size('1GiB', 'merged files kept on this disk as a read copy'),
  confirmCopies: option.integer(
    0,
    'storages that must have a trunk before its files may leave this disk; 0: two where the group has two or more active ones, else one',
    { maximum: 32 },
  ),
  scrubRate: option.size(
    '1MiB',
    'bytes a second read in the background to verify their checksums, at most; 0 switches it off',
  ),
  cacheSize: option.size(
    `${eighthOfMemory()}B`,
    'memory for files that were just uploaded or read; 0 keeps none',
    { shown: 'an eighth of the memory' },
  ),
  cacheFilter: option.boolean(false, 'put a Bloom filter in front of that cache'),
  readAhead: option.size(
    '1MiB',
    'bytes read at a time for files of one affinity group; 0 reads every file alone',
    { maximum: '16MiB' },
  ),
  durability: option.choice(
    'sync',
    ['sync', 'os'],
    'what an upload is acknowledged after: sync: it is on disk; os: the operating system has it',
  ),
} satisfies OptionTable;

export type StoreOptions = OptionValues<typeof storeOptions>;

/** What `open()` takes: any of the options; sizes and durations as numbers or as `64MiB`, `60s`. */
export type OpenOptions = {
  readonly [Name in keyof StoreOptions]?: StoreOptions[Name] | string;
};

export function parseStoreOptions(raw: RawOptions): StoreOptions {
  return asStoreError(() => parseOptions(storeOptions, [fromProgram(raw)], checkStoreOptions));
}

/** Of a program, whose errors are all StoreErrors. */
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

/** Throws for options that contradict each other; `nameOf` is what an option is called. */
export function checkStoreOptions(options: StoreOptions, nameOf: (option: string) => string): void {
  if (options.peerUrl !== '' && !/^https?:\/\/[^/]/.test(options.peerUrl)) {
    throw new OptionError(
      `${nameOf('peerUrl')}: "${options.peerUrl}" is no URL; write it like http://10.0.0.5:8080`,
    );
  }
  if (options.peerUrl !== '' && options.map === '') {
    throw new OptionError(`${nameOf('peerUrl')} is for servers with a ${nameOf('map')}`);
  }
  if (options.stagedCopies > 1 && options.map === '') {
    throw new OptionError(`${nameOf('stagedCopies')} 2 is for servers with a ${nameOf('map')}`);
  }
  if (options.partner !== '' && options.stagedCopies === 1) {
    throw new OptionError(`${nameOf('partner')} is for ${nameOf('stagedCopies')} 2`);
  }
  if (options.partner !== '' && !/^https?:\/\/[^/]/.test(options.partner)) {
    throw new OptionError(
      `${nameOf('partner')}: "${options.partner}" is no URL; write it like http://10.0.0.6:8080`,
    );
  }
  const trunkSize = nameOf('trunkSize');
  if (options.smallFileLimit > options.trunkSize / 2) {
    throw new OptionError(
      `${nameOf('smallFileLimit')} must be at most half of ${trunkSize}, or trunks cannot be filled`,
    );
  }
  if (options.containerSize < options.trunkSize * 2) {
    throw new OptionError(
      `${nameOf('containerSize')} must be at least twice ${trunkSize}, or nothing can be merged`,
    );
  }
}
