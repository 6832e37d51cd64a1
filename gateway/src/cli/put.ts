import { type OptionTable, type OptionValues, option } from '@stevedore/options';
import type { Command } from 'commander';
import { EXIT_FAILED } from './errors.js';
import { printable } from './file-commands.js';
import { localFiles } from './local-files.js';
import { addOptions, flags, optionsOf } from './options.js';
import { sendOptions, storeAll } from './store-all.js';

/** `stevedore put`: uploads files and directories, several at a time. */

const putOptions = {
  ...sendOptions,
  ...flags({ json: option.boolean(false, 'print receipts as lines of JSON') }),
} satisfies OptionTable;

const HELP = `
Prints a line for each file that the gateway has: its key, its size and its name. Files that
could not be stored are named on stderr, and the exit code is 1 then. Where nothing more can
be stored, because the gateway is down or refuses every upload, it ends at once.

A second put of the same files sends what is new or changed (in size, time of change, inode,
name or group), skips what is there already, and so goes on where the first was cut off. Keys
are remembered by gateway and path in $XDG_STATE_HOME/stevedore/puts.sqlite (~/.local/state
by default); each is looked up at the gateway before its file is skipped, for which an API
key needs the scope "read". A skipped file has its receipt too, with "skipped" in --json, and
the summary on stderr counts them.

Examples:
  stevedore put photo.jpg
  stevedore put holiday/ --group holiday --json > receipts.ndjson`;

export function configure(command: Command): void {
  addOptions(command, putOptions)
    .addHelpText('after', HELP)
    .action(async (paths: string[]) => {
      if (!(await putAll(paths, optionsOf(command, putOptions)))) process.exitCode = EXIT_FAILED;
    });
}

function putAll(
  paths: readonly string[],
  options: OptionValues<typeof putOptions>,
): Promise<boolean> {
  return storeAll(
    () => localFiles(paths),
    localFiles(paths),
    options,
    (receipt, _file, isSkipped) => {
      if (options.json) return JSON.stringify(isSkipped ? { ...receipt, skipped: true } : receipt);
      // For people the file's name; for programs the fields, always in the same place.
      const mark = isSkipped && process.stdout.isTTY ? '  (there already)' : '';
      return line(receipt) + mark;
    },
  );
}

function line({ key, size, name }: Readonly<Record<string, unknown>>): string {
  return `${key}  ${size}  ${printable(String(name))}`;
}
