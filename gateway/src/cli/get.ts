import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { GatewayClient } from './gateway-client.js';
import { addGatewayAccess } from './url-option.js';

/** `stevedore get`: a file to stdout, or whole and then renamed to its place. */

const HELP = `
Examples:
  stevedore get KEY -o photo.jpg
  stevedore get group1/M00/00/00/... > photo.jpg`;

export function configure(command: Command): void {
  addGatewayAccess(command)
    .option('-o, --output <file>', 'write to this file; it appears when it is complete')
    .addHelpText('after', HELP)
    .action(async (id: string, flags: { readonly url: string; readonly output?: string }) => {
      const client = new GatewayClient(flags.url);
      try {
        const content = await client.get(id);
        if (flags.output === undefined) await pipeline(content, process.stdout, { end: false });
        else await save(content, flags.output);
      } finally {
        await client[Symbol.asyncDispose]();
      }
    });
}

async function save(content: Readable, path: string): Promise<void> {
  const partial = `${path}.${process.pid}.part`;
  try {
    await pipeline(content, createWriteStream(partial, { flags: 'wx' }));
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}
