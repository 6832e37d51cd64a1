import { formatBytes } from '@stevedore/options';
import type { Command } from 'commander';
import { explain } from './explain.js';
import { GatewayClient } from './gateway-client.js';
import { localFiles } from './local-files.js';
import { startProgress } from './progress.js';
import { PutJournal, putJournalPath } from './put-journal.js';
import { PutRun, type PutRunOptions } from './put-run.js';
import { addGatewayAccess } from './url-option.js';
import { EXIT_FAILED, UsageError } from './usage.js';

/** `stevedore put`: uploads files and directories, several at a time. */

interface PutFlags {
  readonly url: string;
  readonly concurrency: number;
  readonly again?: boolean;
  readonly json?: boolean;
  readonly group?: string;
}

const MAX_CONCURRENCY = 256;

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
  addGatewayAccess(command)
    .option('-g, --group <name>', 'affinity group: these files are stored next to each other')
    .option('-c, --concurrency <number>', 'uploads at a time', parseConcurrency, 8)
    .option('--again', 'send every file anew, whether it is there or not')
    .option('--json', 'print each receipt as a line of JSON')
    .addHelpText('after', HELP)
    .action(async (paths: string[], flags: PutFlags) => {
      if (!(await putAll(paths, flags))) process.exitCode = EXIT_FAILED;
    });
}

/** True if the gateway has every file. */
async function putAll(paths: readonly string[], flags: PutFlags): Promise<boolean> {
  const client = new GatewayClient(flags.url, flags.concurrency);
  const journal = openJournal(client.url);
  const { bytes, files } = process.stderr.isTTY ? await measure(paths) : { bytes: 0, files: 0 };
  const progress = startProgress(`${formatBytes(bytes)} in ${files} files`);
  const onReceipt: PutRunOptions['onReceipt'] = (receipt, isSkipped) => {
    if (flags.json) {
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
    group: flags.group,
    sendsAgain: flags.again === true,
    concurrency: flags.concurrency,
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
  // One file, one line: a name may hold anything, a line break too.
  const shown = String(name).replace(/[\x00-\x1f\x7f]/g, (char) =>
    JSON.stringify(char).slice(1, -1),
  );
  return `${key}  ${size}  ${shown}`;
}

function parseConcurrency(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= 1 && number <= MAX_CONCURRENCY) return number;
  throw new UsageError(`--concurrency: "${text}" is no number from 1 to ${MAX_CONCURRENCY}`);
}
