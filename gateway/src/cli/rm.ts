import type { Command } from 'commander';
import { explain } from './explain.js';
import { endsAll, GatewayClient } from './gateway-client.js';
import { addGatewayAccess } from './url-option.js';
import { EXIT_FAILED, UsageError } from './usage.js';

/** `stevedore rm`: deletes every file that is named, whatever becomes of the others. */
export function configure(command: Command): void {
  addGatewayAccess(command).action(async (ids: string[], flags: { readonly url: string }) => {
    const client = new GatewayClient(flags.url);
    try {
      for (const id of ids) {
        try {
          await client.delete(id);
        } catch (error) {
          process.stderr.write(`${id}: ${explain(error)}\n`);
          process.exitCode = EXIT_FAILED;
          if (!(error instanceof UsageError) && endsAll(error)) break;
        }
      }
    } finally {
      await client[Symbol.asyncDispose]();
    }
  });
}
