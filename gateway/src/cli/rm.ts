import type { Command } from 'commander';
import { explain } from './explain.js';
import { GatewayClient } from './gateway-client.js';
import { addUrlOption } from './url-option.js';
import { EXIT_FAILED } from './usage.js';

/** `stevedore rm`: deletes every file that is named, whatever becomes of the others. */
export function configure(command: Command): void {
  addUrlOption(command).action(async (keys: string[], flags: { readonly url: string }) => {
    const client = new GatewayClient(flags.url);
    try {
      for (const key of keys) {
        try {
          await client.delete(key);
        } catch (error) {
          process.stderr.write(`${key}: ${explain(error)}\n`);
          process.exitCode = EXIT_FAILED;
        }
      }
    } finally {
      await client[Symbol.asyncDispose]();
    }
  });
}
