import type { Command } from 'commander';
import { trackerOptions } from '../node-options.js';
import { nodeAccess } from './node-access.js';
import { configureNode } from './node-command.js';

/** `stevedore tracker`: keeps account of storages and sends clients to them. */
export function configure(command: Command): void {
  configureNode(command, {
    table: trackerOptions,
    describe: () => '',
    start: async (given, onError) => {
      const {
        addressWidth,
        clusterSecretFile,
        withoutSecret,
        metrics: _metrics,
        ...options
      } = given;
      const access = await nodeAccess({ clusterSecretFile, withoutSecret });
      const { startTracker } = await import('@stevedore/tracker');
      const width = addressWidth === 'auto' ? {} : { addressWidth };
      return startTracker({ ...options, ...width, ...access, onError });
    },
    metrics: async (tracker) => {
      const { trackerMetrics } = await import('../observe/node-metrics.js');
      return trackerMetrics(tracker);
    },
  });
}
