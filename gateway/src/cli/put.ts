import { createReadStream } from 'node:fs';
import { typeOfExtension } from '@stevedore/middleware/core';
import type { Command } from 'commander';
import { explain } from './explain.js';
import { GatewayClient } from './gateway-client.js';
import { type LocalFailure, type LocalFile, localFiles } from './local-files.js';
import { type Progress, silentProgress } from './progress.js';
import { addUrlOption } from './url-option.js';
import { EXIT_FAILED, UsageError } from './usage.js';

/** `stevedore put`: uploads files and directories, several at a time. */

interface PutFlags {
  readonly url: string;
  readonly concurrency: number;
  readonly json?: boolean;
  readonly group?: string;
}

const MAX_CONCURRENCY = 256;

const HELP = `
Prints a line for each file that is stored: its key, its size and its name. Files that
could not be stored are named on stderr, and the exit code is 1 then.

Examples:
  stevedore put photo.jpg
  stevedore put holiday/ --group holiday --json > receipts.ndjson`;

export function configure(command: Command): void {
  addUrlOption(command)
    .option('-g, --group <name>', 'affinity group: these files are stored next to each other')
    .option('-c, --concurrency <number>', 'uploads at a time', parseConcurrency, 8)
    .option('--json', 'print each receipt as a line of JSON')
    .addHelpText('after', HELP)
    .action(async (paths: string[], flags: PutFlags) => {
      if (!(await putAll(paths, flags))) process.exitCode = EXIT_FAILED;
    });
}

/** True if every file is stored. */
async function putAll(paths: readonly string[], flags: PutFlags): Promise<boolean> {
  const client = new GatewayClient(flags.url, flags.concurrency);
  const progress = process.stderr.isTTY ? await watched(paths) : silentProgress;
  const files = localFiles(paths);
  let allStored = true;
  const fail = (path: string, error: unknown): void => {
    allStored = false;
    process.stderr.write(`${path}: ${explain(error)}\n`);
  };
  const worker = async (): Promise<void> => {
    for await (const file of files) {
      if (isFailure(file)) {
        fail(file.path, file.error);
        continue;
      }
      try {
        const receipt = await putOne(client, file, flags.group, progress);
        progress.print(flags.json ? JSON.stringify(receipt) : line(receipt));
      } catch (error) {
        fail(file.path, error);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: flags.concurrency }, worker));
  } finally {
    progress.stop();
    await client.close();
  }
  return allStored;
}

async function putOne(
  client: GatewayClient,
  { path, name, size }: LocalFile,
  group: string | undefined,
  progress: Progress,
): Promise<Record<string, unknown>> {
  const body = createReadStream(path);
  body.on('error', () => {});
  body.on('data', (chunk) => progress.advance(chunk.length));
  body.pause();
  try {
    const type = typeOfExtension(/\.([A-Za-z0-9]+)$/.exec(name)?.[1] ?? '');
    return await client.put({ body, size, name, type, group });
  } finally {
    body.destroy();
  }
}

/** A first walk, for the bar to know what is ahead. */
async function watched(paths: readonly string[]): Promise<Progress> {
  let bytes = 0;
  let files = 0;
  for await (const file of localFiles(paths)) {
    if (isFailure(file)) continue;
    bytes += file.size;
    files += 1;
  }
  const { startProgress } = await import('./progress.js');
  return startProgress(bytes, files);
}

function line({ key, size, name }: Record<string, unknown>): string {
  // One file, one line: a name may hold anything, a line break too.
  const shown = String(name).replace(/[\x00-\x1f\x7f]/g, (char) =>
    JSON.stringify(char).slice(1, -1),
  );
  return `${key}  ${size}  ${shown}`;
}

function isFailure(file: LocalFile | LocalFailure): file is LocalFailure {
  return 'error' in file;
}

function parseConcurrency(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= 1 && number <= MAX_CONCURRENCY) return number;
  throw new UsageError(`--concurrency: "${text}" is no number from 1 to ${MAX_CONCURRENCY}`);
}
