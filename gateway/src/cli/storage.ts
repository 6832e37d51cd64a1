import { resolve } from 'node:path';
import type { Command } from 'commander';
import { storageOptions } from '../node-options.js';
import { nodeAccess } from './node-access.js';
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
    start: async (options, onError) => {
      const { cacheSize, readAhead, writeCopies, ...others } = options;
      const { metadataTier, smallFileThreshold, bandwidth, moveRate, ...more } = others;
      const { clusterSecretFile, withoutSecret, metrics: _metrics, ...rest } = more;
      const access = await nodeAccess({ clusterSecretFile, withoutSecret });
      const { startStorage } = await import('@stevedore/storage');
      return startStorage({
        ...rest,
        ...access,
        cacheBytes: cacheSize,
        readAheadBytes: readAhead,
        writeCopies: writeCopies === 0 ? 'all' : writeCopies,
        tiers: {
          enabled: metadataTier,
          thresholdBytes: smallFileThreshold,
          bytesPerSecond: bandwidth,
          movesPerSecond: moveRate,
        },
        onError,
      });
    },
    metrics: async (storage) => {
      const { storageMetrics } = await import('../observe/node-metrics.js');
      return storageMetrics(storage);
    },
  });
}
