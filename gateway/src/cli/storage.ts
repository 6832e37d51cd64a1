import { resolve } from 'node:path';
import type { IoServer, Storage } from '@stevedore/storage';
import type { Command } from 'commander';
import { type StorageNodeOptions, storageOptions } from '../node-options.js';
import { nodeAccess } from './node-access.js';
import { configureNode } from './node-command.js';
import { UsageError } from './usage.js';

/**
 * `stevedore storage`: keeps files, for the trackers it joins and clients that ask it directly;
 * with `--role io`, parts of the files of other storages.
 */
export function configure(command: Command): void {
  configureNode(command, {
    table: storageOptions,
    describe: ({ role, group, trackers, storePaths }) => {
      const paths = storePaths.map((path) => resolve(path)).join(', ');
      const joined = trackers.length === 0 ? 'no trackers' : `trackers ${trackers.join(', ')}`;
      return `\n  ${role === 'io' ? 'I/O server' : group} in ${paths}; ${joined}`;
    },
    start: (options, onError): Promise<Storage | IoServer> =>
      options.role === 'io' ? startIo(options, onError) : start(options, onError),
    metrics: async (node) => {
      const { ioServerMetrics, storageMetrics } = await import('../observe/node-metrics.js');
      return 'group' in node ? storageMetrics(node) : ioServerMetrics(node);
    },
  });
}

async function start(
  options: StorageNodeOptions,
  onError: (error: Error) => void,
): Promise<Storage> {
  const { role: _role, cacheSize, readAhead, ...others } = options;
  const { metadataTier, smallFileThreshold, bandwidth, moveRate, ...more } = others;
  const { stripeSize, stripeWidth, ...another } = more;
  const { clusterSecretFile, withoutSecret, metrics: _metrics, ...rest } = another;
  const access = await nodeAccess({ clusterSecretFile, withoutSecret });
  const { startStorage } = await import('@stevedore/storage');
  return startStorage({
    ...rest,
    ...access,
    cacheBytes: cacheSize,
    readAheadBytes: readAhead,
    tiers: {
      enabled: metadataTier,
      thresholdBytes: smallFileThreshold,
      bytesPerSecond: bandwidth,
      movesPerSecond: moveRate,
      stripeBytes: stripeSize,
      stripeWidth,
    },
    onError,
  });
}

async function startIo(
  { storePaths, metadataTier, ...options }: StorageNodeOptions,
  onError: (error: Error) => void,
): Promise<IoServer> {
  const [directory, ...others] = storePaths;
  if (directory === undefined || others.length > 0) {
    throw new UsageError(
      'an I/O server has one directory (--store-paths); start one for each disk',
    );
  }
  if (metadataTier) {
    throw new UsageError('an I/O server has no metadata tier: --metadata-tier is for storages');
  }
  const { host, port, trackers } = options;
  const access = await nodeAccess(options);
  const { startIoServer } = await import('@stevedore/storage');
  return startIoServer({ directory, host, port, trackers, ...access, onError });
}
