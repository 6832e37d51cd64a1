import { drainGateway, storeOptions } from '@stevedore/client/internal';
import type { Command } from 'commander';
import { explain, UsageError } from './errors.js';
import { addOptions, define, jsonOption, storeOptionsOf } from './options.js';
import { startProgress } from './progress.js';
import { demandOwner } from './upkeep.js';

/** `stevedore drain`: takes a gateway out of its deployment for good. */

const HELP = `
Stop the gateway first. What is staged is stored in FastDFS, and another gateway that is alive has
the files from then on, under the same keys and ids. Exit code 0 says that the directory is not
needed any more; a gateway that starts with it is a new one. It may be stopped and started again.

Example:
  stevedore drain --directory /var/lib/stevedore --map postgres://stevedore@10.0.0.9/stevedore`;

export function configure(command: Command): void {
  addOptions(command, storeOptions);
  define(command, jsonOption, HELP, async ({ json }) => {
    const options = storeOptionsOf(command);
    if (options.map === '') throw new UsageError('name the map of the deployment with --map');
    await demandOwner(options.directory);
    const progress = startProgress('the trunks');
    try {
      const warn = (error: Error) => progress.warn(`warning: ${explain(error)}`);
      const report = await drainGateway(options, progress.update, warn);
      progress.stop();
      const { files, origins } = report;
      const text = `another gateway has the ${files} files of origin ${origins.join(', ')}: ${options.directory} is not needed any more`;
      process.stdout.write(`${json ? JSON.stringify(report) : text}\n`);
    } finally {
      progress.stop();
    }
  });
}
