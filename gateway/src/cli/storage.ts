import { resolve } from 'node:path';
import type { Command } from 'commander';
import { storageOptions } from '../node-options.js';
import { configureNode } from './node-command.js';

/** `stevedore storage`: keeps files, for the trackers it joins and whoever asks it directly. */
export function configure(command: Command): void {
  configureNode(command, {
    table: storageOptions,
    describe: ({ group, trackers, storePaths }) => {
      const paths = storePaths.map((path) => resolve(path)).join(', ');
      const joined = trackers.length === 0 ? 'no trackers' : `trackers ${trackers.join(', ')}`;
      return `\n  ${group} in ${paths}; ${joined}`;
    },
<<<<<<< HEAD
    start: async ({ cacheSize, readAhead, ...rest }, onError) => {
      const { startStorage } = await import('@stevedore/storage');
      return startStorage({ ...rest, cacheBytes: cacheSize, readAheadBytes: readAhead, onError });
=======
    start: async ({ host, port, trackers, group, storePaths, writeCopies }, onError) => {
      const { startStorage } = await import('@stevedore/storage');
      const copies = { writeCopies: writeCopies === 0 ? 'all' : writeCopies } as const;
      return startStorage({ host, port, trackers, group, storePaths, ...copies, onError });
>>>>>>> d83e0ad (Replication: tests of a group, its promises and formats in the docs, --write-copies)
    },
  });
}
