import { dirname, join } from 'node:path';
import { type Disk, readSmallFile, replaceFile } from '@stevedore/disk';
import { asError, type Environment } from '@stevedore/wire';
import type { FileBackend } from '../files/file-backend.js';
import type { StorePath } from '../files/store-path.js';
import { dataDirectory, logDirectory } from '../layout.js';
import type { StorageSettings } from '../storage-options.js';
import { Binlog } from './binlog.js';
import { noteRedone } from './note-redone.js';
import { presentFiles } from './present-files.js';

/**
 * Opens the log of a storage. One that has none gets it from the files that are
 * there; `instance`, which says that the log is whole, is made last, so that a crash
 * begins anew. Every store path carries the same instance: one without it has been
 * replaced by an empty one. What a crash had interrupted, and this start carried
 * through, is noted.
 */

export interface OpenedLog {
  readonly log: Binlog;
  /** A store path has been replaced: its files have to come from the other members. */
  readonly lostFiles: boolean;
}

/** In the log's directory: `{ instance, storePaths }`. */
const INSTANCE_FILE = 'instance';
/** In `data` of every store path: the instance. */
const PATH_INSTANCE_FILE = '.stevedore-instance';
const MAX_INSTANCE_BYTES = 256;
/** Records that are written together when a log is made. */
const BATCH_RECORDS = 1000;

export async function openLog(
  { disk, environment, onError }: StorageSettings,
  storePaths: readonly StorePath[],
  backend: FileBackend,
): Promise<OpenedLog> {
  const directory = logDirectory(storePaths[0]!.path);
  const log = new Binlog({ disk, directory, onError });
  try {
    const filled = await fill({ disk, backend, environment, log, directory, storePaths });
    await noteRedone(log, storePaths, environment);
    return { log, ...filled };
  } catch (error) {
    await log.close().catch((again: unknown) => onError(asError(again)));
    throw error;
  }
}

interface Parts {
  readonly disk: Disk;
  readonly backend: FileBackend;
  readonly environment: Environment;
  readonly log: Binlog;
  readonly directory: string;
  readonly storePaths: readonly StorePath[];
}

/** Opens the log, and fills it if it is not whole. */
async function fill(parts: Parts): Promise<Omit<OpenedLog, 'log'>> {
  const { disk, environment, log, directory, storePaths } = parts;
  const file = join(directory, INSTANCE_FILE);
  const known = parse(await readSmallFile(disk, file, MAX_INSTANCE_BYTES));
  if (!known) {
    await makeLog(parts);
    const instance = newInstance(environment);
    await settle(disk, directory, storePaths, instance);
    return { lostFiles: false };
  }
  await log.open();
  const marked = await Promise.all(storePaths.map(({ path }) => instanceOf(disk, path)));
  const lostFiles = marked.some(
    (each, index) => index < known.storePaths && each !== known.instance,
  );
  const instance = lostFiles ? newInstance(environment) : known.instance;
  if (lostFiles || known.storePaths !== storePaths.length) {
    await settle(disk, directory, storePaths, instance);
  }
  return { lostFiles };
}

async function makeLog({ disk, backend, log, directory, storePaths }: Parts): Promise<void> {
  await disk.makeDirectory(directory);
  await disk.syncDirectory(dirname(directory));
  for (const name of await disk.list(directory)) await disk.unlink(join(directory, name));
  await log.open();
  let written: Promise<unknown>[] = [];
  for (const [index, { path }] of storePaths.entries()) {
    for await (const record of presentFiles(disk, backend, path, index)) {
      const appended = log.append(record);
      // Its failure is thrown where all of them are waited for.
      appended.catch(() => {});
      written.push(appended);
      if (written.length < BATCH_RECORDS) continue;
      await Promise.all(written);
      written = [];
    }
  }
  await Promise.all(written);
}

/** The store paths first: a crash in between finds a path that has another instance. */
async function settle(
  disk: Disk,
  directory: string,
  storePaths: readonly StorePath[],
  instance: string,
): Promise<void> {
  for (const { path } of storePaths) {
    await replaceFile(disk, dataDirectory(path), PATH_INSTANCE_FILE, instance);
  }
  const content = JSON.stringify({ instance, storePaths: storePaths.length });
  await replaceFile(disk, directory, INSTANCE_FILE, content);
}

async function instanceOf(disk: Disk, storePath: string): Promise<string | undefined> {
  const path = join(dataDirectory(storePath), PATH_INSTANCE_FILE);
  return (await readSmallFile(disk, path, MAX_INSTANCE_BYTES))?.toString('latin1');
}

function newInstance(environment: Environment): string {
  const half = (): string =>
    environment
      .random(2 ** 32)
      .toString(16)
      .padStart(8, '0');
  return half() + half();
}

function parse(bytes: Buffer | undefined): { instance: string; storePaths: number } | undefined {
  const match = /^\{"instance":"([0-9a-f]{16})","storePaths":(\d{1,3})\}$/.exec(
    bytes?.toString('latin1') ?? '',
  );
  return match ? { instance: match[1]!, storePaths: Number(match[2]) } : undefined;
}
