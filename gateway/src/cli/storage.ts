import { resolve } from 'node:path';
import type { Storage } from '@stevedore/node';
import type { Command } from 'commander';
import { type StorageNodeOptions, storageOptions } from '../node-options.js';
import { nodeAccess } from './node-access.js';
import { configureNode } from './node-command.js';

/** `stevedore storage`: keeps files, for the trackers it joins and clients that ask it directly. */
export function configure(command: Command): void {
  configureNode(command, {
    table: storageOptions,
    describe: ({ group, trackers, storePaths }) => {
      const paths = storePaths.map((path) => resolve(path)).join(', ');
      const joined = trackers.length === 0 ? 'no trackers' : `trackers ${trackers.join(', ')}`;
      return `\n  ${group} in ${paths}; ${joined}`;
    },
    start,
    metrics: async (node) => {
      const { storageMetrics } = await import('../observe/node-metrics.js');
      return storageMetrics(node);
    },
  });
}

async function start(
  options: StorageNodeOptions,
  onError: (error: Error) => void,
): Promise<Storage> {
  const { cacheSize, readAhead, ...others } = options;
  const { metadataTier, metadataTierSize, smallFileThreshold, smallFileShare, ...more } = others;
  const { moveTo, shareWith, bandwidth, moveRate, ...another } = more;
  const { clusterSecretFile, withoutSecret, metrics: _metrics, ...rest } = another;
  const access = await nodeAccess({ clusterSecretFile, withoutSecret });
  const { startStorage } = await import('@stevedore/node');
  return startStorage({
    ...rest,
    ...access,
    cacheBytes: cacheSize,
    readAheadBytes: readAhead,
    tiers: {
      enabled: metadataTier,
      thresholdBytes: smallFileThreshold,
      roomBytes: metadataTierSize,
      moveTo: moveTo === '' ? undefined : moveTo,
      shareWith,
      smallFileShare: smallFileShare / 100,
      bytesPerSecond: bandwidth,
      movesPerSecond: moveRate,
    },
    onError,
  });
}
