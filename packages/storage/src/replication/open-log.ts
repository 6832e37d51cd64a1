import { dirname } from 'node:path';
import type { Disk } from '@stevedore/disk';
import { asError } from '../errors.js';
import { logDirectory } from '../storage/layout.js';
import type { StorageSettings } from '../storage/options.js';
import type { StorePath } from '../storage/store-path.js';
import { Binlog } from './binlog.js';
import { presentFiles } from './present-files.js';

/** Records that are written together when a log is made. */
const BATCH_RECORDS = 1000;

/**
 * Opens the log of a storage. One that has none gets it from the files that are
 * there: the file that proves it whole is made last, so that a crash begins anew.
 */
export async function openLog(
  { disk, onError }: StorageSettings,
  storePaths: readonly StorePath[],
): Promise<Binlog> {
  const log = new Binlog({ disk, directory: logDirectory(storePaths[0]!.path), onError });
  try {
    await fill(disk, log, storePaths);
    return log;
  } catch (error) {
    await log.close().catch((again: unknown) => onError(asError(again)));
    throw error;
  }
}

/** Opens the log, and fills it if it is not whole. */
async function fill(disk: Disk, log: Binlog, storePaths: readonly StorePath[]): Promise<void> {
  const directory = logDirectory(storePaths[0]!.path);
  const names = await disk.list(directory);
  if (names.includes(WHOLE_FILE)) {
    await log.open();
    return;
  }
  await disk.makeDirectory(directory);
  await disk.syncDirectory(dirname(directory));
  for (const name of names) await disk.unlink(`${directory}/${name}`);
  await log.open();
  let written: Promise<unknown>[] = [];
  for (const [index, { path }] of storePaths.entries()) {
    for await (const record of presentFiles(disk, path, index)) {
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
  await (await disk.create(`${directory}/${WHOLE_FILE}`)).close();
  await disk.syncDirectory(directory);
}

/** Empty; there once the log holds all that was in the store paths when it was made. */
const WHOLE_FILE = 'log-is-whole';
