import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type OptionTable, option } from '@stevedore/options';
import type { Command } from 'commander';
import { EXIT_FAILED, explain, UsageError } from './errors.js';
import { endsAll, GatewayClient } from './gateway-client.js';
import { addOptions, clientOptions, flags, jsonOption, optionsOf } from './options.js';

/** `stevedore get`, `stat` and `rm`: files of a gateway, by key or FastDFS id. */

const getOptions = {
  ...clientOptions,
  ...flags({
    output: option.text('', 'write to this file; it appears when it is complete', { short: 'o' }),
  }),
};

const GET_HELP = `
Examples:
  stevedore get KEY -o photo.jpg
  stevedore get group1/M00/00/00/... > photo.jpg`;

/** A file to stdout, or whole and then renamed to its place. */
export function get(command: Command): void {
  addOptions(command, getOptions)
    .addHelpText('after', GET_HELP)
    .action((id: string) => {
      const { output } = optionsOf(command, getOptions);
      return withClient(command, getOptions, async (client) => {
        const content = await client.get(id);
        if (output === '') await pipeline(content, process.stdout, { end: false });
        else await save(content, output);
      });
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

const statOptions = { ...clientOptions, ...jsonOption };

/** What is known about a file. */
export function stat(command: Command): void {
  addOptions(command, statOptions).action((id: string) =>
    withClient(command, statOptions, async (client) => {
      const info = await client.stat(id);
      const { json } = optionsOf(command, statOptions);
      process.stdout.write(`${json ? JSON.stringify(info) : rows(info)}\n`);
    }),
  );
}

function rows(info: Record<string, unknown>): string {
  return Object.entries(info)
    .map(([name, value]) => `${name.padEnd(14)} ${printable(String(value))}`)
    .join('\n');
}

/** Names may hold control characters; terminals are not to obey them, nor lines to break. */
export function printable(text: string): string {
  return text.replace(/[\x00-\x1f\x7f]/g, (char) => JSON.stringify(char).slice(1, -1));
}

const listOptions = {
  ...clientOptions,
  ...jsonOption,
  ...flags({
    group: option.text('', 'only files of this affinity group'),
    prefix: option.text('', 'only files whose names begin so'),
    type: option.text('', 'only files of this type: image/png, or image/*'),
    since: option.text('', 'only files uploaded at this time (ISO 8601) or later'),
    until: option.text('', 'only files uploaded before this time'),
    keys: option.boolean(false, 'print keys alone'),
  }),
};

const LIST_HELP = `
Examples:
  stevedore ls --group album-7
  stevedore ls --type 'image/*' --since 2026-03-01
  stevedore ls --prefix tmp/ --keys | xargs -r stevedore rm`;

/** A line for each file of the gateway, oldest first. Needs an API key with the scope list. */
export function list(command: Command): void {
  addOptions(command, listOptions)
    .addHelpText('after', LIST_HELP)
    .action(() =>
      withClient(command, listOptions, async (client) => {
        const { group, prefix, type, since, until, json, keys } = optionsOf(command, listOptions);
        const query = { group, 'name-prefix': prefix, type, since, until };
        for (let after: unknown = ''; typeof after === 'string'; ) {
          const { files, next } = await client.list({ ...query, after });
          for (const file of files as Record<string, unknown>[]) {
            await write(`${json ? JSON.stringify(file) : keys ? String(file.key) : line(file)}\n`);
          }
          after = next;
        }
      }),
    );
}

function line({ key, size, stagedAt, name }: Record<string, unknown>): string {
  return `${key}  ${size}  ${stagedAt}  ${printable(String(name))}`;
}

/** A terminal or a pipe that takes nothing more holds the listing up. */
async function write(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain');
}

/** Deletes every file that is named, whatever becomes of the others. */
export function remove(command: Command): void {
  addOptions(command, clientOptions).action((ids: string[]) =>
    withClient(command, clientOptions, async (client) => {
      for (const id of ids) {
        try {
          await client.delete(id);
        } catch (error) {
          process.stderr.write(`${id}: ${explain(error)}\n`);
          process.exitCode = EXIT_FAILED;
          if (!(error instanceof UsageError) && endsAll(error)) break;
        }
      }
    }),
  );
}

async function withClient(
  command: Command,
  table: OptionTable & typeof clientOptions,
  work: (client: GatewayClient) => Promise<void>,
): Promise<void> {
  const client = new GatewayClient(optionsOf(command, table));
  try {
    await work(client);
  } finally {
    await client[Symbol.asyncDispose]();
  }
}
