import { type OptionTable, type OptionValues, option } from '@stevedore/options';
import { EXIT_FAILED, printable } from './errors.js';
import { GatewayClient } from './gateway-client.js';
import { withLocalKey } from './local-gateway.js';
import { clientOptions, flags } from './options.js';
import { startTransfer } from './progress.js';
import { PutRun, type Receipt, type Source, type SourceFile } from './put-run.js';
import { interruptible } from './signals.js';

/** The part that `put` and `import` share: a run with its bar and its summary. */

export const sendOptions = {
  ...clientOptions,
  ...flags({
    group: option.text('', 'affinity group: these files are stored next to each other', {
      short: 'g',
    }),
    concurrency: option.integer(8, 'uploads at a time', { short: 'c', minimum: 1, maximum: 256 }),
  }),
} satisfies OptionTable;

/**
 * Sets the exit code unless the gateway has every file. `rowOf` is printed for every file that the
 * gateway has.
 */
export function storeAll(
  source: (client: GatewayClient) => Source,
  options: OptionValues<typeof sendOptions>,
  rowOf: (receipt: Receipt, file: SourceFile, isSkipped: boolean) => string,
  type?: string,
): Promise<void> {
  const { group, concurrency } = options;
  return interruptible(async (stopped, atEnd) => {
    // A source may read from the gateway while an upload waits for it.
    await using client = new GatewayClient(await withLocalKey(options), 2 * concurrency, stopped);
    const progress = startTransfer();
    const run = new PutRun({
      client,
      progress,
      concurrency,
      type,
      stopped,
      group: group === '' ? undefined : group,
      onReceipt: (...stored) => progress.print(rowOf(...stored)),
    });
    atEnd(() => {
      const summary = run.summary();
      progress.stop();
      if (summary !== '') progress.warn(summary);
    });
    if (!(await run.putAll(source(client)))) process.exitCode = EXIT_FAILED;
  });
}

/** A line of a stored file: its key, its size and its name. */
export function lineOf({
  key,
  size,
  name,
}: { readonly [Name in 'key' | 'size' | 'name']?: unknown }): string {
  return `${key}  ${size}  ${printable(String(name))}`;
}
