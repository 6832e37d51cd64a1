import { formatBytes, type OptionTable, type OptionValues, option } from '@stevedore/options';
import type { Command } from 'commander';
import { EXIT_FAILED, explain } from './errors.js';
import { printable } from './file-commands.js';
import { GatewayClient } from './gateway-client.js';
import { addOptions, clientOptions, flags, optionsOf } from './options.js';
import { startProgress } from './progress.js';
import { PutJournal, putJournalPath } from './put-journal.js';
import { localFiles, PutRun, type PutRunOptions } from './put-run.js';

/** `stevedore put`: uploads files and directories, several at a time. */

const putOptions = {
  ...clientOptions,
  ...flags({
    group: option.text('', 'affinity group: these files are stored next to each other', {
      short: 'g',
    }),
    concurrency: option.integer(8, 'uploads at a time', { short: 'c', minimum: 1, maximum: 256 }),
    again: option.boolean(false, 'send every file, even if the gateway already has it'),
    json: option.boolean(false, 'print receipts as lines of JSON'),
  }),
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

/** True if the gateway has every file. */
async function putAll(
  paths: readonly string[],
  options: OptionValues<typeof putOptions>,
): Promise<boolean> {
  const { group, concurrency, again, json } = options;
  const client = new GatewayClient(options, concurrency);
  const journal = openJournal(client.url);
  const { bytes, files } = process.stderr.isTTY ? await measure(paths) : { bytes: 0, files: 0 };
  const progress = startProgress(`${formatBytes(bytes)} in ${files} files`);
  const onReceipt: PutRunOptions['onReceipt'] = (receipt, isSkipped) => {
    if (json) {
      progress.print(JSON.stringify(isSkipped ? { ...receipt, skipped: true } : receipt));
      return;
    }
    // People see which, programs find the fields where they always are.
    const mark = isSkipped && process.stdout.isTTY ? '  (there already)' : '';
    progress.print(line(receipt) + mark);
  };
  const run = new PutRun({
    client,
    progress,
    journal,
    group: group === '' ? undefined : group,
    sendsAgain: again,
    concurrency,
    totalBytes: bytes,
    onReceipt,
  });
  try {
    return await run.putAll(paths);
  } finally {
    const summary = run.summary();
    progress.stop();
    if (summary !== '') progress.warn(summary);
    journal?.close();
    await client[Symbol.asyncDispose]();
  }
}

/** Uploads work without one. */
function openJournal(url: string): PutJournal | undefined {
  try {
    return PutJournal.open(putJournalPath(process.env), url);
  } catch (error) {
    process.stderr.write(`warning: every file is sent, and none remembered: ${explain(error)}\n`);
    return undefined;
  }
}

/** A first walk, for the bar to know what is ahead. */
async function measure(
  paths: readonly string[],
): Promise<{ readonly bytes: number; readonly files: number }> {
  let bytes = 0;
  let files = 0;
  for await (const file of localFiles(paths)) {
    if ('error' in file) continue;
    bytes += file.size;
    files += 1;
  }
  return { bytes, files };
}

function line({ key, size, name }: Readonly<Record<string, unknown>>): string {
  return `${key}  ${size}  ${printable(String(name))}`;
}
