import { formatBytes, type OptionTable, type OptionValues, option } from '@stevedore/options';
import { explain } from './errors.js';
import { GatewayClient } from './gateway-client.js';
import { clientOptions, flags } from './options.js';
import { startProgress } from './progress.js';
import { PutJournal, putJournalPath } from './put-journal.js';
import {
  PutRun,
  type Receipt,
  type Source,
  type SourceFailure,
  type SourceFile,
} from './put-run.js';

/** The part that `put` and `import` share: a run with its journal, its bar and its summary. */

export const sendOptions = {
  ...clientOptions,
  ...flags({
    group: option.text('', 'affinity group: these files are stored next to each other', {
      short: 'g',
    }),
    concurrency: option.integer(8, 'uploads at a time', { short: 'c', minimum: 1, maximum: 256 }),
    again: option.boolean(false, 'send every file, even if the gateway already has it'),
  }),
} satisfies OptionTable;

/** A coming file, as far as the bar needs it. */
export type Ahead = { readonly size: number } | SourceFailure;

/**
 * True if the gateway has every file. `ahead` is read only if the bar is shown. `lineOf` is printed
 * for every file that the gateway has.
 */
export async function storeAll(
  source: (client: GatewayClient) => Source,
  ahead: AsyncIterable<Ahead>,
  options: OptionValues<typeof sendOptions>,
  lineOf: (receipt: Receipt, file: SourceFile, isSkipped: boolean) => string,
): Promise<boolean> {
  const { group, concurrency, again } = options;
  // A source may read from the gateway while an upload waits for it.
  const client = new GatewayClient(options, 2 * concurrency);
  const journal = openJournal(client.url);
  const { bytes, files } = process.stderr.isTTY ? await measure(ahead) : NOTHING;
  const progress = startProgress(`${formatBytes(bytes)} in ${files} files`);
  const run = new PutRun({
    ...{ client, progress, journal, concurrency },
    group: group === '' ? undefined : group,
    sendsAgain: again,
    totalBytes: bytes,
    onReceipt: (...stored) => progress.print(lineOf(...stored)),
  });
  try {
    return await run.putAll(source(client));
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

const NOTHING = { bytes: 0, files: 0 };

async function measure(files: AsyncIterable<Ahead>): Promise<typeof NOTHING> {
  const sum = { ...NOTHING };
  for await (const file of files) {
    if ('error' in file) continue;
    sum.bytes += file.size;
    sum.files += 1;
  }
  return sum;
}
