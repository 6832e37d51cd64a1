import { type OptionTable, option } from '@stevedore/options';

/** The options of a storage that an operator sets. */
export const storageFlags = {
  host: option.text('127.0.0.1', 'address to listen on and to connect from'),
  port: option.port(23_000, 'port to listen on; 0 picks a free one'),
  trackers: option.list([], 'trackers to join, HOST:PORT,...'),
  group: option.text('group1', 'storage group that it belongs to: at most 16 letters and digits'),
  storePaths: option.list(
    ['./stevedore-storage'],
    'directories for the files, DIRECTORY,...; the binlog is in the first',
  ),
  subdirectoriesPerPath: option.integer(
    256,
    "directories per level, the same in the whole storage group (FastDFS's subdir_count_per_path)",
    { minimum: 1, maximum: 256 },
  ),
  heartbeat: option.duration(
    '30s',
    "interval of heartbeats to the trackers, less than half of their check_active_interval (FastDFS's heart_beat_interval)",
    { minimum: '1s', maximum: '1h' },
  ),
  cacheSize: option.size('64MiB', 'memory for the cache of small files; 0 disables it'),
  cachePolicy: option.choice(
    'admission',
    ['admission', 'lru'],
    'files that the cache keeps; admission: those requested most; lru: those requested last, as in the data node paper',
    { see: '../packages/cache/README.md#admission' },
  ),
  cacheFilter: option.boolean(false, 'put a Bloom filter in front of the cache'),
  readAhead: option.size(
    '1MiB',
    'bytes to read at once of an affinity group; 0 reads each file alone',
    { maximum: '64MiB' },
  ),
  durability: option.choice(
    'sync',
    ['sync', 'os'],
    'when a change is acknowledged; sync: it is on disk; os, as in FastDFS: the operating system has it',
  ),
  writeCopies: option.integer(
    1,
    'members of its storage group, itself included, that have a new file when it is acknowledged; with fewer, status 11',
    { minimum: 1, maximum: 32, see: '../packages/storage/README.md#what-is-promised' },
  ),
} satisfies OptionTable;
