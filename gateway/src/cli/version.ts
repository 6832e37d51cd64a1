import type { Command } from 'commander';
import { version } from '../program.js';
import { withClient } from './file-commands.js';
import { addOptions, clientOptions } from './options.js';

/** `stevedore version`: the versions of this command and of the gateway that it talks to. */

export function configure(command: Command): void {
  addOptions(command, clientOptions).action(() => {
    process.stdout.write(`stevedore ${version()}\n`);
    return withClient(command, clientOptions, async (client) => {
      process.stdout.write(`gateway ${await client.version()} at ${client.url}\n`);
    });
  });
}
