import { discardFileMap } from '@stevedore/client';
import type { Command } from 'commander';
import { addStoreFlags, print, startBar, storeOptionsOf, withUpkeep } from './upkeep.js';

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
      const bar = await startBar('trunks');
      await withUpkeep(command, bar, async (upkeep) => {
        const { stagedFiles, mergedFiles, trunks } = upkeep.stats();
        bar.stop();
        print(
          `the FileMap has ${stagedFiles} staged and ${mergedFiles} merged files in ${trunks} trunks`,
        );
      });
    });
}
