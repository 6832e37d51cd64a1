import {
  fromProgram,
  invalidOption,
  type OptionSpec,
  type OptionTable,
  type OptionValues,
  parseOptions,
  type RawOptions,
} from './config.js';

/** The options of `open()`: every one is a flag and an environment variable of the gateway too. */

export type Durability = 'sync' | 'os';

const MIB = 2 ** 20;
const GIB = 2 ** 30;

export const storeOptions = {
  directory: {
    kind: 'text',
    default: './stevedore-data',
    help: 'where the container, the FileMap and the embedded node keep their files',
  } as OptionSpec<string>,
  trackers: {
    kind: 'list',
    default: [],
    help: 'trackers of a FastDFS cluster, HOST:PORT,...; none: an embedded tracker and storage',
  } as OptionSpec<readonly string[]>,
  trackerPort: {
    kind: 'port',
    default: 0,
    help: 'port of the embedded tracker; 0 takes a free one',
  } as OptionSpec<number>,
  storagePort: {
    kind: 'port',
    default: 0,
    help: 'port of the embedded storage; 0 takes a free one',
  } as OptionSpec<number>,
  metadataTier: {
    kind: 'boolean',
    default: false,
    help: 'the embedded storage keeps small files that it is given as rows beside their metadata',
  } as OptionSpec<boolean>,
  clusterSecretFile: {
    kind: 'text',
    default: '',
    help: 'file of the secret that trackers and storages of Stevedore ask for; of several, one a line, the first is used',
  } as OptionSpec<string>,
  trunkSize: {
    kind: 'size',
    default: 64 * MIB,
    minimum: MIB,
    maximum: 2 * GIB,
    help: 'what a trunk is filled up to, never beyond',
  } as OptionSpec<number>,
  mergeMaxAge: {
    kind: 'duration',
    default: 60_000,
    minimum: 10,
    help: 'no file waits longer than this for its trunk to be packed',
  } as OptionSpec<number>,
  smallFileLimit: {
    kind: 'size',
    default: 4 * MIB,
    minimum: 1,
    maximum: 16 * MIB,
    help: 'larger files are not merged but stored whole',
  } as OptionSpec<number>,
  maxFileSize: {
    kind: 'size',
    default: GIB,
    minimum: 1,
    help: 'a longer upload is refused',
  } as OptionSpec<number>,
  directMaxWait: {
    kind: 'duration',
    default: 100,
    help: 'how long files that are put in direct mode are collected at the most',
  } as OptionSpec<number>,
  directBuffer: {
    kind: 'size',
    default: 4 * MIB,
    minimum: 1,
    maximum: 64 * MIB,
    help: 'files put in direct mode that are written without waiting any longer',
  } as OptionSpec<number>,
  containerSize: {
    kind: 'size',
    default: 20 * GIB,
    minimum: MIB,
    help: 'what staged files may take on this disk before uploads are refused',
  } as OptionSpec<number>,
  retain: {
    kind: 'size',
    default: GIB,
    help: 'merged files kept on this disk as a read copy',
  } as OptionSpec<number>,
  confirmCopies: {
    kind: 'integer',
    default: 0,
    maximum: 32,
    help: 'storages that must have a trunk before its files may leave this disk; 0: two where the group has two or more, else one',
  } as OptionSpec<number>,
  scrubRate: {
    kind: 'size',
    default: MIB,
    help: 'bytes a second that are read in the background and held against their checksums, at the most; 0 switches it off',
  } as OptionSpec<number>,
  cacheSize: {
    kind: 'size',
    default: 64 * MIB,
    help: 'memory for files read back from FastDFS; 0 switches the cache off',
  } as OptionSpec<number>,
  cacheFilter: {
    kind: 'boolean',
    default: false,
    help: 'a Bloom filter in front of that cache',
  } as OptionSpec<boolean>,
  readAhead: {
    kind: 'size',
    default: MIB,
    maximum: 16 * MIB,
    help: 'downloaded at a time for files of one affinity group; 0: every file alone',
  } as OptionSpec<number>,
  durability: {
    kind: 'text',
    default: 'sync',
    choices: ['sync', 'os'],
    help: 'sync: on disk before it is acknowledged; os: handed to the operating system',
  } as OptionSpec<Durability>,
} satisfies OptionTable;

export type StoreOptions = OptionValues<typeof storeOptions>;

/** What `open()` takes: any of the options; sizes and durations as numbers or as `64MiB`, `60s`. */
export type OpenOptions = {
  readonly [Name in keyof StoreOptions]?: StoreOptions[Name] | string;
};

export function parseStoreOptions(raw: RawOptions): StoreOptions {
  return parseOptions(storeOptions, [fromProgram(raw)], checkStoreOptions);
}

/** Throws for options that contradict each other; `nameOf` is what an option is called. */
export function checkStoreOptions(options: StoreOptions, nameOf: (option: string) => string): void {
  const trunkSize = nameOf('trunkSize');
  if (options.smallFileLimit > options.trunkSize / 2) {
    throw invalidOption(
      `${nameOf('smallFileLimit')} must be at most half of ${trunkSize}, or trunks cannot be filled`,
    );
  }
  if (options.containerSize < options.trunkSize * 2) {
    throw invalidOption(
      `${nameOf('containerSize')} must be at least twice ${trunkSize}, or nothing can be merged`,
    );
  }
}
