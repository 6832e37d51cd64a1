import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { type OptionTable, option } from '@stevedore/options';
import { decodeFields, fileKind, parseFileId } from '@stevedore/protocol';
import type { Command } from 'commander';
import { EXIT_FAILED, UsageError } from './errors.js';
import { endsAll, type GatewayClient } from './gateway-client.js';
import { filesBelow } from './local-files.js';
import { addOptions, flags, optionsOf } from './options.js';
import type { Source, SourceFile } from './put-run.js';
import { sendOptions, storeAll } from './store-all.js';

/** `stevedore import`: files that an app has kept elsewhere, and the keys that they get. */

const importOptions = {
  ...sendOptions,
  ...flags({
    fastdfs: option.text(
      '',
      'file with a FastDFS id on each line, and behind a comma the name to store it under; - is stdin',
    ),
  }),
} satisfies OptionTable;

const HELP = `
Prints CSV with the columns path, key, size and crc32: a row for each file that the gateway has.
A path is the way from the directory to the file, or the FastDFS id. Every file is compared with
what the gateway received, by its CRC-32. Files that could not be imported are named on stderr,
and the exit code is 1 then.

Run it again to go on where it was cut off, or to take what is new: files that the gateway has
are not sent again (see "stevedore put --help"), and their rows are printed too.

Files of FastDFS are read through the gateway and get keys of their own. They stay in FastDFS under
their old ids; delete them there when no page links to them any more.

Examples:
  stevedore import uploads/ > keys.csv
  stevedore import --fastdfs ids.txt > keys.csv`;

export function configure(command: Command): void {
  addOptions(command, importOptions)
    .addHelpText('after', HELP)
    .action(async (directory: string | undefined) => {
      const options = optionsOf(command, importOptions);
      const { fastdfs } = options;
      if ((directory === undefined) === (fastdfs === '')) {
        throw new UsageError('name either a directory, or a list with --fastdfs');
      }
      const list = fastdfs === '' ? [] : await listedIds(fastdfs);
      const source = (client: GatewayClient): Source =>
        directory === undefined ? storedFiles(list, client) : filesBelow(directory);
      process.stdout.write('path,key,size,crc32\n');
      const rowOf = ({ key, size, crc32 }: Record<string, unknown>, file: SourceFile): string =>
        [directory === undefined ? file.path : file.name, key, size, crc32].map(cell).join(',');
      if (!(await storeAll(source, options, rowOf))) process.exitCode = EXIT_FAILED;
    });
}

/** As RFC 4180 has it. */
export function cell(value: unknown): string {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

interface ListedId {
  readonly id: string;
  readonly name: string;
}

async function listedIds(path: string): Promise<ListedId[]> {
  const input = path === '-' ? process.stdin : createReadStream(path);
  const ids: ListedId[] = [];
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    const [id = '', ...rest] = line.trim().split(',');
    if (id === '') continue;
    const name = rest.join(',').trim() || id.slice(id.lastIndexOf('/') + 1);
    ids.push({ id: id.trim(), name });
  }
  return ids;
}

/** Files of FastDFS, read through the gateway. */
async function* storedFiles(list: readonly ListedId[], client: GatewayClient): Source {
  for (const { id, name } of list) {
    try {
      const { size, stagedAt } = await client.stat(id);
      yield {
        path: id,
        identity: `fastdfs ${id}`,
        name,
        size: Number(size),
        state: `${size} ${stagedAt}`,
        ...knownSum(id),
        open: () => client.get(id),
      };
    } catch (error) {
      if (endsAll(error)) throw error;
      yield { path: id, error };
    }
  }
}

/** The id of a file that never changes has its CRC-32. */
function knownSum(id: string): { readonly crc32?: number } {
  const parsed = parseFileId(id);
  if (!parsed || fileKind(parsed) !== 'normal') return {};
  return { crc32: decodeFields(parsed.base).crc32 };
}
