import { type OptionTable, option } from '@stevedore/options';

/** The options of a tracker and of a storage that run on their own. */

const commonOptions = {
  clusterSecretFile: option.text(
    '',
    'file of the secret that every connection must begin with, one a line; the first is used for connections to others, all are accepted',
    { see: 'OPERATIONS.md#who-may-use-the-ports-of-trackers-and-storages' },
  ),
  withoutSecret: option.choice(
    'nothing',
    ['nothing', 'read', 'all'],
    'what a client may do that does not show the secret; all: while members are given it',
  ),
  metrics: option.text(
    '',
    'HOST:PORT that answers GET /metrics, for Prometheus; a port alone is one of 127.0.0.1, 0 a free one',
  ),
} satisfies OptionTable;

export const trackerOptions = {
  host: option.text('127.0.0.1', 'address to listen on'),
  port: option.port(22_122, 'port to listen on; 0 takes a free one'),
  storeLookup: option.choice(
    'round-robin',
    ['round-robin', 'group', 'most-free'],
    'group of an upload: in turns, always --store-group, or the one with most free room',
  ),
  storeGroup: option.text('', 'the group of all uploads, for --store-lookup group'),
  storageIds: option.list(
    [],
    'storages by id instead of address: "100001 group1 10.0.0.7:23000",...',
  ),
  addressWidth: option.choice(
    'auto',
    ['auto', 'narrow', 'wide'],
    'address fields in answers: narrow for IPv4, wide for IPv6 too; auto: as --storage-ids need',
  ),
  ...commonOptions,
} satisfies OptionTable;

export const storageOptions = {
  host: option.text(
    '127.0.0.1',
    'address to listen on, and to reach trackers and members of the group from',
  ),
  port: option.port(23_000, 'port to listen on; 0 takes a free one'),
  trackers: option.list([], 'trackers to join, HOST:PORT,...'),
  group: option.text(
    'group1',
    'group of storages this one belongs to: letters and digits, 16 at most',
  ),
  storePaths: option.list(
    ['./stevedore-storage'],
    'directories that hold the files, DIRECTORY,...; the log of changes is in the first',
  ),
  cacheSize: option.size(
    '64MiB',
    'memory for small files that were read; 0 switches the cache off',
  ),
  cacheFilter: option.boolean(false, 'put a Bloom filter in front of that cache'),
  readAhead: option.size(
    '1MiB',
    'bytes read at a time for files of one affinity group; 0 reads every file alone',
    { maximum: '64MiB' },
  ),
  writeCopies: option.integer(
    1,
    'members of the group, itself included, that must have a new file before it is acknowledged; with fewer it is refused and removed, with status 11',
    { minimum: 1, maximum: 32, see: '../packages/storage/README.md#what-is-promised' },
  ),
  metadataTier: option.boolean(
    false,
    'keep small files, and slices that are read often, as rows beside their metadata, and move them by size, load and room; off: files in rows are still served',
    { see: '../packages/tiering/FORMAT.md' },
  ),
  metadataTierSize: option.size(
    '4GiB',
    'bytes of files that the rows may hold; beyond 80 % of it slices go, then the files read least',
    { minimum: '1MiB' },
  ),
  moveTo: option.text(
    '',
    'group that takes files which outgrew their rows, or for which there is no room or load to spare: any group of the trackers, one of C storages too; none: they become files here',
    { see: '../packages/tiering/FORMAT.md#files-in-another-group' },
  ),
  shareWith: option.list(
    [],
    'groups of other storages with a metadata tier, which take load while they have room, GROUP,...',
  ),
  smallFileShare: option.integer(
    20,
    'percent of what the storage can serve that small files get at least, however much metadata is asked for',
    { minimum: 1, maximum: 100 },
  ),
  smallFileThreshold: option.size(
    '64KiB',
    'longest file that becomes a row, to begin with; it adapts, up to 2MiB',
    { minimum: '1KiB', maximum: '2MiB' },
  ),
  bandwidth: option.size(
    0,
    'bytes a second that the disk serves; 0 measures it at the first start',
  ),
  moveRate: option.integer(50, 'files that move a second, at most', {
    minimum: 1,
    maximum: 100_000,
  }),
  ...commonOptions,
} satisfies OptionTable;

export type NodeOptions = typeof commonOptions;
