import { type OptionTable, option } from '@stevedore/options';

/** The options of a storage that an operator sets. */
export const storageFlags = {
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
} satisfies OptionTable;
