import type { Command } from 'commander';
import { version } from '../program.js';
import { withClient } from './file-commands.js';
import { clientOptions, define } from './options.js';

/** `stevedore version`: the versions of this command and of the gateway that it talks to. */

export function configure(command: Command): void {
  define(command, clientOptions, '', (options) => {
    process.stdout.write(`stevedore ${version()}\n`);
    return withClient(options, async (client) => {
      process.stdout.write(`gateway ${await client.version()} at ${client.url}\n`);
    });
  });
}
