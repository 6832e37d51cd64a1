import type { OptionSpec, OptionTable, OptionValues } from '@stevedore/client';

/** The options of a tracker and of a storage that run on their own. */

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
} satisfies OptionTable;

export type TrackerNodeOptions = OptionValues<typeof trackerOptions>;
export type StorageNodeOptions = OptionValues<typeof storageOptions>;
