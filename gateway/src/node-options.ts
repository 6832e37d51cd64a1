import type { OptionSpec, OptionTable, OptionValues } from '@stevedore/client';
import type { WithoutSecret } from '@stevedore/wire';

/** The options of a tracker and of a storage that run on their own. */

/** Where their figures are. */
const metricsOptions = {
  metrics: {
    kind: 'text',
    default: '',
    help: 'HOST:PORT that answers GET /metrics, for Prometheus; a port alone is one of 127.0.0.1; empty: none',
  } as OptionSpec<string>,
} satisfies OptionTable;

/** Who may use their ports. */
const accessOptions = {
  clusterSecretFile: {
    kind: 'text',
    default: '',
    help: 'file of the secret that every connection must begin with, one a line; the first is used, all are taken',
  } as OptionSpec<string>,
  withoutSecret: {
    kind: 'text',
    default: 'nothing',
    choices: ['nothing', 'read', 'all'] satisfies readonly WithoutSecret[],
    help: 'what a client may do that does not show the secret: nothing, read, or all (while members are given it)',
  } as OptionSpec<WithoutSecret>,
} satisfies OptionTable;

export const trackerOptions = {
  host: {
    kind: 'text',
    default: '127.0.0.1',
    help: 'address to listen on',
  } as OptionSpec<string>,
  port: {
    kind: 'port',
    default: 22_122,
    help: 'port to listen on; 0 takes a free one',
  } as OptionSpec<number>,
  storeLookup: {
    kind: 'text',
    default: 'round-robin',
    choices: ['round-robin', 'group', 'most-free'],
    help: 'group of an upload: in turns, always --store-group, or the one with most free room',
  } as OptionSpec<'round-robin' | 'group' | 'most-free'>,
  storeGroup: {
    kind: 'text',
    default: '',
    help: 'the group of all uploads, for --store-lookup group',
  } as OptionSpec<string>,
  storageIds: {
    kind: 'list',
    default: [],
    help: 'storages by id instead of address: "100001 group1 10.0.0.7:23000",...',
  } as OptionSpec<readonly string[]>,
  addressWidth: {
    kind: 'text',
    default: 'auto',
    choices: ['auto', 'narrow', 'wide'],
    help: 'address fields in answers: narrow for IPv4, wide for IPv6 too; auto: as --storage-ids need',
  } as OptionSpec<'auto' | 'narrow' | 'wide'>,
  ...accessOptions,
  ...metricsOptions,
} satisfies OptionTable;

export const storageOptions = {
  host: {
    kind: 'text',
    default: '127.0.0.1',
    help: 'address to listen on, and to reach trackers from',
  } as OptionSpec<string>,
  port: {
    kind: 'port',
    default: 23_000,
    help: 'port to listen on; 0 takes a free one',
  } as OptionSpec<number>,
  trackers: {
    kind: 'list',
    default: [],
    help: 'trackers to join, HOST:PORT,...',
  } as OptionSpec<readonly string[]>,
  group: {
    kind: 'text',
    default: 'group1',
    help: 'group of storages this one belongs to: letters and digits, 16 at most',
  } as OptionSpec<string>,
  storePaths: {
    kind: 'list',
    default: ['./stevedore-storage'],
    help: 'directories that hold the files, DIRECTORY,...',
  } as OptionSpec<readonly string[]>,
  cacheSize: {
    kind: 'size',
    default: 64 * 2 ** 20,
    help: 'memory for small files that were read; 0 switches the cache off',
  } as OptionSpec<number>,
  cacheFilter: {
    kind: 'boolean',
    default: false,
    help: 'a Bloom filter in front of the cache',
  } as OptionSpec<boolean>,
  readAhead: {
    kind: 'size',
    default: 2 ** 20,
    maximum: 64 * 2 ** 20,
    help: 'read at a time for files of one affinity group; 0 reads every file alone',
  } as OptionSpec<number>,
  writeCopies: {
    kind: 'integer',
    default: 1,
    minimum: 1,
    maximum: 32,
    help: 'members of the group that must have a new file before it is answered',
  } as OptionSpec<number>,
  metadataTier: {
    kind: 'boolean',
    default: false,
    help: 'keep small files as rows beside their metadata, and move them by size, load and room',
  } as OptionSpec<boolean>,
  metadataTierSize: {
    kind: 'size',
    default: 4 * 2 ** 30,
    minimum: 2 ** 20,
    help: 'bytes of files that the rows may hold; beyond 80 % of it those asked for least leave',
  } as OptionSpec<number>,
  moveTo: {
    kind: 'text',
    default: '',
    help: 'group that takes files which outgrew their rows, or for which there is no room or load to spare; empty: they become files here',
  } as OptionSpec<string>,
  shareWith: {
    kind: 'list',
    default: [],
    help: 'groups of other storages with a metadata tier, which take load while they have room, GROUP,...',
  } as OptionSpec<readonly string[]>,
  smallFileShare: {
    kind: 'integer',
    default: 20,
    minimum: 1,
    maximum: 100,
    help: 'percent of what the storage can serve that small files have at least, however much metadata is asked for',
  } as OptionSpec<number>,
  smallFileThreshold: {
    kind: 'size',
    default: 64 * 2 ** 10,
    minimum: 2 ** 10,
    maximum: 2 * 2 ** 20,
    help: 'largest file that becomes a row, to begin with; it adapts up to 2MiB',
  } as OptionSpec<number>,
  bandwidth: {
    kind: 'size',
    default: 0,
    help: 'bytes a second that the disk serves; 0 measures it at the first start',
  } as OptionSpec<number>,
  moveRate: {
    kind: 'integer',
    default: 50,
    minimum: 1,
    maximum: 100_000,
    help: 'files that move a second, at most',
  } as OptionSpec<number>,
  ...accessOptions,
  ...metricsOptions,
} satisfies OptionTable;

export type StorageNodeOptions = OptionValues<typeof storageOptions>;
