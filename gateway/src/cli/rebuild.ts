import { discardFileMap } from '@stevedore/client';
import type { Command } from 'commander';
import { startProgress } from './progress.js';
import { addStoreFlags, print, storeOptionsOf, withUpkeep } from './upkeep.js';

const HELP = `
Works on a directory that no gateway has: stop the gateway first. Keys, names, types,
groups, FastDFS ids and deletions come back from the container and the trunks alone.

Example:
  stevedore rebuild --directory /var/lib/stevedore`;

/** `stevedore rebuild`: throws the FileMap away and makes it anew. */
export function configure(command: Command): void {
  addStoreFlags(command)
    .addHelpText('after', HELP)
    .action(async () => {
      await discardFileMap(String(storeOptionsOf(command).directory));
      const progress = startProgress('the trunks');
      await withUpkeep(command, progress, async (upkeep) => {
        const { stagedFiles, mergedFiles, trunks } = upkeep.stats();
        progress.stop();
        print(
          `the FileMap has ${stagedFiles} staged and ${mergedFiles} merged files in ${trunks} trunks`,
        );
      });
    });
}
