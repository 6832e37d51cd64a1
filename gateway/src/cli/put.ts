import { type OptionTable, option } from '@stevedore/options';
import type { Command } from 'commander';
import { UsageError } from './errors.js';
import { localFiles } from './local-files.js';
import { define, flags } from './options.js';
import type { Receipt, SourceFile } from './put-run.js';
import { lineOf, sendOptions, storeAll } from './store-all.js';

/** `stevedore put`: uploads files and directories, several at a time. */

const putOptions = {
  ...sendOptions,
  ...flags({
    name: option.text('', 'name to store the path under, in place of its own', { short: 'n' }),
    type: option.text('', "media type of every file; none: by its name's extension", {
      short: 't',
    }),
    json: option.boolean(false, 'print receipts as lines of JSON'),
  }),
} satisfies OptionTable;

const HELP = `
Prints a line for each file that the gateway has: its key, its size and its name. Files that
could not be stored are named on stderr, and the exit code is 1 then. Where nothing more can
be stored, because the gateway is down or refuses every upload, it ends at once.

The path - is stdin. Links are followed, except back to a directory above them. Pipes, sockets,
devices and names that are not UTF-8 are named as files that failed.

A second put of the same files with the same API key goes on where the first was cut off: it
skips each file that the gateway has from this path with the same bytes, time of change,
inode, name, type and group. Nothing is kept on this disk: each upload has an
Idempotency-Key, by which the gateway finds it. A skipped file has its receipt too, with
"skipped" in --json, and the summary on stderr counts them.

Examples:
  stevedore put photo.jpg
  pg_dump shop | stevedore put - --name shop.sql
  stevedore put holiday/ --group holiday --json > receipts.ndjson`;

export function configure(command: Command): void {
  define(command, putOptions, HELP, async (given, paths: string[]) => {
    const { name, type, ...options } = given;
    if (name !== '' && paths.length > 1) throw new UsageError('--name takes one path');
    const rowOf = (receipt: Receipt, _file: SourceFile, isSkipped: boolean): string => {
      if (options.json) return JSON.stringify(isSkipped ? { ...receipt, skipped: true } : receipt);
      // For people the file's name; for programs the fields, always in the same place.
      const mark = isSkipped && process.stdout.isTTY ? '  (there already)' : '';
      return lineOf(receipt) + mark;
    };
    await storeAll(() => localFiles(paths, name || undefined), options, rowOf, type || undefined);
  });
}
