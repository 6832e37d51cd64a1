import { type OptionTable, option } from '@stevedore/options';
import type { Command } from 'commander';
import { UsageError } from './errors.js';
import { type ListedFile, listedFiles } from './export.js';
import { GatewayClient } from './gateway-client.js';
import { withLocalKey } from './local-gateway.js';
import { clientOptions, define, flags, otherGatewayOptions } from './options.js';
import type { Source, SourceFailure } from './put-run.js';
import { sendOptions, storeAll } from './store-all.js';

/** `stevedore cp`: copies files of one gateway to another. Copies have keys of their own. */

const copyOptions = {
  ...clientOptions,
  ...otherGatewayOptions,
  concurrency: sendOptions.concurrency,
  ...flags({
    to: option.text('', 'URL of the gateway that gets the copies'),
    group: option.text('', 'all files of this affinity group', { short: 'g' }),
    toGroup: option.text('', 'affinity group of the copies; with --group, the same by default'),
  }),
} satisfies OptionTable;

const HELP = `
Prints a line for each file: its key, and the key of the copy. Names and types stay. Run it again to
go on: what was copied before is not sent again. A group needs an API key with the scopes "list" and
"read", the other gateway one with "write".

Examples:
  stevedore cp KEY KEY --to http://10.0.0.2:8080
  stevedore cp --group album-7 --to http://10.0.0.2:8080`;

export function configure(command: Command): void {
  define(command, copyOptions, HELP, async (options, ids: string[]) => {
    const { to, toApiKey, group, concurrency } = options;
    if (to === '') throw new UsageError('name the other gateway with --to URL');
    if ((ids.length === 0) === (group === '')) {
      throw new UsageError('name either files, or a group with --group');
    }
    // Bytes arrive while others are asked about.
    await using source = new GatewayClient(await withLocalKey(options), 2 * concurrency);
    const files = () => (group === '' ? named(source, ids) : groupOf(source, group));
    await storeAll(
      () => sourceOf(source, files()),
      files(),
      { url: to, apiKey: toApiKey, concurrency, group: options.toGroup || group },
      (receipt, { identity }) => `${identity?.split(' ').at(-1)}  ${receipt.key}`,
    );
  });
}

type Files = AsyncGenerator<ListedFile | SourceFailure, void, undefined>;

function groupOf(client: GatewayClient, group: string): Files {
  return listedFiles(client, { group, prefix: '', type: '', since: '', until: '' });
}

async function* named(client: GatewayClient, ids: readonly string[]): Files {
  for (const id of ids) {
    try {
      yield (await client.stat(id)) as unknown as ListedFile;
    } catch (error) {
      yield { path: id, error };
    }
  }
}

async function* sourceOf(client: GatewayClient, files: Files): Source {
  for await (const file of files) {
    if ('error' in file) {
      yield file;
      continue;
    }
    const { key, name, size, type, crc32 } = file;
    yield {
      path: name,
      name,
      size,
      type,
      crc32: Number.parseInt(crc32, 16),
      // Files never change, so their facts are their state.
      identity: `${client.url} ${key}`,
      state: crc32,
      open: () => client.get(key),
    };
  }
}
