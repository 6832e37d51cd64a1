import type { Command } from 'commander';
import { GatewayClient } from './gateway-client.js';
import { addGatewayAccess } from './url-option.js';

/** `stevedore stat`: what is known about a file. */
export function configure(command: Command): void {
  addGatewayAccess(command)
    .option('--json', 'print it as JSON')
    .action(async (id: string, flags: { readonly url: string; readonly json?: boolean }) => {
      const client = new GatewayClient(flags.url);
      try {
        const info = await client.stat(id);
        process.stdout.write(`${flags.json ? JSON.stringify(info) : rows(info)}\n`);
      } finally {
        await client[Symbol.asyncDispose]();
      }
    });
}

function rows(info: Record<string, unknown>): string {
  return Object.entries(info)
    .map(([name, value]) => `${name.padEnd(14)} ${shown(value)}`)
    .join('\n');
}

/** Names may hold control characters; terminals are not to obey them. */
function shown(value: unknown): string {
  return String(value).replace(/[\x00-\x1f\x7f]/g, (char) => JSON.stringify(char).slice(1, -1));
}
