import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { type OptionTable, option } from '@stevedore/options';
import { decodeFields, fileKind, parseFileId, sizeOfField } from '@stevedore/protocol';
import type { Command } from 'commander';
import { CSV_HEAD, csvRow } from './csv.js';
import { UsageError } from './errors.js';
import { endsAll, type GatewayClient } from './gateway-client.js';
import { filesBelow } from './local-files.js';
import { define, flags } from './options.js';
import type { Receipt, Source, SourceFile } from './put-run.js';
import { sendOptions, storeAll } from './store-all.js';

/** `stevedore import`: stores files that an app has kept elsewhere, and prints their keys. */

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
Prints CSV with the columns path, key, size, crc32 and name: a row for each file that the gateway
has. A path is the way from the directory to the file, or the FastDFS id. A cell that a
spreadsheet would run as a formula has a ' before it. Every file is compared with what the
gateway received, by its CRC-32. Files that could not be imported are named on stderr, and the
exit code is 1 then.

Run it again to go on where it was cut off, or to take what is new: files that the gateway has
are not sent again, and their rows are printed too. "stevedore put --help" says more, also about
links and odd names.

Files of FastDFS are read through the gateway and get keys of their own. They stay in FastDFS under
their old ids; delete them there when no page links to them any more.

Examples:
  stevedore import uploads/ > keys.csv
  stevedore import --fastdfs ids.txt > keys.csv`;

export function configure(command: Command): void {
  define(command, importOptions, HELP, async (options, directory: string | undefined) => {
    const { fastdfs } = options;
    if ((directory === undefined) === (fastdfs === '')) {
      throw new UsageError('name either a directory, or a list with --fastdfs');
    }
    const list = fastdfs === '' ? [] : await listedIds(fastdfs);
    const source = (client: GatewayClient): Source =>
      directory === undefined ? storedFiles(list, client) : filesBelow(directory);
    process.stdout.write(CSV_HEAD);
    const rowOf = (receipt: Receipt, file: SourceFile): string =>
      csvRow(directory === undefined ? file.path : file.name, receipt);
    await storeAll(source, options, rowOf);
  });
}

interface ListedId {
  readonly id: string;
  readonly name: string;
}

/** An id that is there twice is taken once. */
async function listedIds(path: string): Promise<ListedId[]> {
  const input = path === '-' ? process.stdin : createReadStream(path);
  const ids = new Map<string, ListedId>();
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    const [first = '', ...rest] = line.trim().split(',');
    const id = first.trim();
    if (id === '') continue;
    const name = rest.join(',').trim() || id.slice(id.lastIndexOf('/') + 1);
    if (!ids.has(id)) ids.set(id, { id, name });
  }
  return [...ids.values()];
}

/** Files of FastDFS, read through the gateway. */
async function* storedFiles(list: readonly ListedId[], client: GatewayClient): Source {
  for (const { id, name } of list) {
    try {
      const { size, stagedAt } = await client.stat(id);
      const fields = fixedFields(id);
      yield {
        path: id,
        identity: `fastdfs ${id}`,
        name,
        size: Number(size),
        state: `${size} ${stagedAt}`,
        crc32: fields?.crc32,
        open: () => client.get(id),
      };
    } catch (error) {
      if (endsAll(error)) throw error;
      yield { path: id, error };
    }
  }
}

const FIXED: ReadonlySet<string> = new Set(['normal', 'slot']);

/** Size and CRC-32 from the id of an immutable file; undefined for any other. */
function fixedFields(id: string): { readonly size: number; readonly crc32: number } | undefined {
  const parsed = parseFileId(id);
  if (!parsed || !FIXED.has(fileKind(parsed))) return undefined;
  const { sizeField, crc32 } = decodeFields(parsed.base);
  return { size: sizeOfField(sizeField), crc32 };
}
