import { readdir, rm } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { type OptionTable, type OptionValues, option } from '@stevedore/options';
import type { Command } from 'commander';
import { crcOf } from './csv.js';
import { EXIT_FAILED, UsageError } from './errors.js';
import { Export, type ListedFile, listedFiles } from './export.js';
import { withClient } from './file-commands.js';
import type { GatewayClient } from './gateway-client.js';
import { filesBelow } from './local-files.js';
import { define, flags } from './options.js';
import { countOf, startTransfer } from './progress.js';
import type { Source, SourceFile } from './put-run.js';
import { lineOf, sendOptions, storeAll } from './store-all.js';

/**
 * `stevedore mirror`: makes a group of files as a folder, or a folder as a group. Names, sizes and
 * checksums say what is the same. A file is deleted only after the one that replaces it is stored,
 * and what the source does not have only after everything else succeeded.
 */

const mirrorOptions = {
  url: sendOptions.url,
  apiKey: sendOptions.apiKey,
  concurrency: sendOptions.concurrency,
  ...flags({
    to: option.text('', 'affinity group that becomes like the folder'),
    from: option.text('', 'affinity group that the folder becomes like'),
    remove: option.boolean(false, 'delete files that the source does not have'),
  }),
} satisfies OptionTable;

const HELP = `
Prints a line for each file of the source. Where the target has a file of the same name with other
bytes, the one of the source replaces it. Names are paths below the folder. Run it again to go on.

Examples:
  stevedore mirror photos/ --to photos
  stevedore mirror backup/ --from photos --remove`;

export function configure(command: Command): void {
  define(command, mirrorOptions, HELP, (options, folder: string) => {
    const { to, from } = options;
    if ((to === '') === (from === '')) throw new UsageError('name a group with --to or --from');
    return to === '' ? download(options, folder, from) : upload(options, folder, to);
  });
}

type Options = OptionValues<typeof mirrorOptions>;

/** Files of a group that are kept in memory. */
const MAX_FILES = 1_000_000;

/** All files of a group by name; of several with one name, the newest is the last. */
async function groupFiles(
  client: GatewayClient,
  group: string,
): Promise<Map<string, ListedFile[]>> {
  const files = new Map<string, ListedFile[]>();
  const filter = { group, prefix: '', type: '', since: '', until: '' };
  let count = 0;
  for await (const file of listedFiles(client, filter)) {
    count += 1;
    if (count > MAX_FILES) throw new UsageError(`${group} has more than ${MAX_FILES} files`);
    files.set(file.name, [...(files.get(file.name) ?? []), file]);
  }
  if (hasFailed())
    throw new Error('the group cannot be compared while some of its files are missing');
  return files;
}

const hasFailed = (): boolean => process.exitCode !== undefined && process.exitCode !== 0;

async function upload(options: Options, folder: string, group: string): Promise<void> {
  const { remove } = options;
  let there = new Map<string, ListedFile[]>();
  await withClient(options, async (client) => {
    there = await groupFiles(client, group);
  });
  const obsolete: string[] = [];
  const kept = new Set<string>();
  let isComplete = false;
  async function* changed(): Source {
    for await (const file of filesBelow(folder)) {
      const known = 'error' in file ? [] : (there.get(file.name) ?? []);
      if (!('error' in file)) kept.add(file.name);
      const same = 'error' in file ? undefined : await sameFile(file, known);
      if (same === undefined) yield file;
      else obsolete.push(...known.filter((each) => each !== same).map(({ key }) => key));
    }
    isComplete = true;
  }
  const sending = { ...options, group, again: true };
  await storeAll(changed, filesBelow(folder), sending, (receipt, { name }) => {
    obsolete.push(...(there.get(name) ?? []).map(({ key }) => key));
    return lineOf(receipt);
  });
  if (remove && isComplete && !hasFailed()) {
    if (kept.size === 0)
      throw new UsageError(`${folder} is empty: --remove would delete all files`);
    for (const [name, files] of there) {
      if (!kept.has(name)) obsolete.push(...files.map(({ key }) => key));
    }
  }
  await withClient(options, async (client) => {
    for (const key of obsolete) await client.delete(key);
  });
  if (obsolete.length > 0) tell('deleted', obsolete.length);
}

/** The newest of the files that has the same bytes. */
async function sameFile(
  file: SourceFile,
  known: readonly ListedFile[],
): Promise<ListedFile | undefined> {
  const likely = known.filter(({ size }) => size === file.size);
  if (likely.length === 0 || !('open' in file)) return undefined;
  const sum = await crcOf(await file.open());
  return likely.findLast((each) => each.crc32 === sum);
}

async function download(options: Options, folder: string, group: string): Promise<void> {
  const { remove, concurrency } = options;
  const mirror = async (client: GatewayClient, stopped: AbortSignal): Promise<void> => {
    const all = await groupFiles(client, group);
    const files = [...all.values()].flatMap((named) => named.slice(-1));
    const source = async function* (): AsyncGenerator<ListedFile, void, undefined> {
      yield* files;
    };
    const progress = await startTransfer(source(), stopped);
    const written = new Set<string>();
    const run = new Export(source(), {
      ...progress,
      client,
      stopped,
      concurrency,
      overwrites: true,
      onFile: (path, file) => {
        written.add(path);
        progress.print(lineOf(file));
      },
    });
    try {
      await run.toDirectory(folder);
    } finally {
      progress.stop();
    }
    if (run.failedFiles > 0) process.exitCode = EXIT_FAILED;
    if (!remove || stopped.aborted || hasFailed()) return;
    if (files.length === 0) {
      throw new UsageError(`${group} has no files: --remove would delete all of ${folder}`);
    }
    await removeOthers(folder, written);
  };
  await withClient(options, mirror, concurrency);
}

/** Links are not followed: what they lead to is not in the folder. */
async function removeOthers(folder: string, kept: ReadonlySet<string>): Promise<void> {
  let count = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(join(folder, sep).length).split(sep).join('/');
    if (!entry.isFile() || kept.has(name)) continue;
    await rm(path);
    count += 1;
  }
  if (count > 0) tell('deleted', count);
}

function tell(what: string, files: number): void {
  process.stderr.write(`${what} ${countOf(files)}\n`);
}
