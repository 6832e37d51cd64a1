import { dirname, join } from 'node:path';
import { type Disk, hasCode, readSmallFile, replaceFile } from '@stevedore/disk';
import { decodeFields, encodePath, hexByte, parseFileName } from '@stevedore/protocol';
import { asError, type Environment, nowSeconds } from '@stevedore/wire';
import type { ReplayedChange } from '../files/change-recovery.js';
import type { FileBackend } from '../files/file-backend.js';
import type { StorePath } from '../files/store-paths.js';
import { dataDirectory, isReservedName, logDirectory } from '../layout.js';
import type { StorageSettings } from '../storage-options.js';
import { Binlog } from './binlog.js';
import { type LogRecord, parseLoggedName } from './log-record.js';

/**
 * Opens the binlog of a storage, and rebuilds a missing one from the stored files. The file
 * `instance` marks it complete and is made last, so a crash starts over. Every store path has
 * the same instance digits: a path with others was replaced. Changes that this start replayed
 * are added to the binlog.
 */

export interface OpenedLog {
  readonly log: Binlog;
  /** A store path was replaced: its files must be copied from other members. */
  readonly lostFiles: boolean;
}

/** In the binlog's directory: `{ instance, storePaths }`. */
const INSTANCE_FILE = 'instance';
/** In `data` of every store path: the instance digits. */
const PATH_INSTANCE_FILE = '.stevedore-instance';
const MAX_INSTANCE_BYTES = 256;
/** Records written at a time when a binlog is rebuilt. */
const BATCH_RECORDS = 1000;

export async function openLog(
  settings: StorageSettings,
  storePaths: readonly StorePath[],
  backend: FileBackend,
): Promise<OpenedLog> {
  const { disk, environment, onError } = settings;
  const directory = logDirectory(settings.storePaths[0]);
  const log = new Binlog({ disk, directory, onError });
  try {
    const filled = await fill({ disk, backend, environment, log, directory, storePaths });
    await logReplayed(log, storePaths, environment);
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

/** Opens the binlog; rebuilds it if it is not complete. */
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
      // Promise.all below throws its error.
      appended.catch(() => {});
      written.push(appended);
      if (written.length < BATCH_RECORDS) continue;
      await Promise.all(written);
      written = [];
    }
  }
  await Promise.all(written);
}

/** Writes the store paths first: after a crash in between, they differ from the binlog's. */
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
  const shape = /^\{"instance":"([0-9a-f]{16})","storePaths":(\d{1,3})\}$/;
  const [, instance, storePaths] = shape.exec(bytes?.toString('latin1') ?? '') ?? [];
  return instance === undefined ? undefined : { instance, storePaths: Number(storePaths) };
}

/**
 * Records for all files of a store path whose binlog is lost or never existed. Each file
 * counts as uploaded here at the time in its name, so other members are sent their own files
 * once, in vain.
 */
async function* presentFiles(
  disk: Disk,
  backend: FileBackend,
  storePath: string,
  storePathIndex: number,
): AsyncGenerator<LogRecord> {
  const data = dataDirectory(storePath);
  for (const high of await twoDigits(disk, data)) {
    for (const low of await twoDigits(disk, join(data, high))) {
      const directory = join(data, high, low);
      const prefix = encodePath(
        storePathIndex,
        Number.parseInt(high, 16),
        Number.parseInt(low, 16),
      );
      const names = await backend.list(directory);
      // Files before their companions.
      const order = (name: string): number => (isReservedName(name) ? 1 : 0);
      for (const name of names.sort((one, other) => order(one) - order(other))) {
        const record = await recordOf(backend, join(directory, name), prefix + name);
        if (record) yield record;
      }
    }
  }
}

const HEX_BYTES: ReadonlySet<string> = new Set(Array.from({ length: 256 }, (_, n) => hexByte(n)));

async function twoDigits(disk: Disk, directory: string): Promise<string[]> {
  return (await disk.list(directory)).filter((name) => HEX_BYTES.has(name)).sort();
}

async function recordOf(
  backend: FileBackend,
  path: string,
  name: string,
): Promise<LogRecord | undefined> {
  const logged = parseLoggedName('group', name, Number.POSITIVE_INFINITY);
  if (!logged) return undefined;
  const atSeconds = Math.max(decodeFields(logged.id.base).createdAtSeconds, 0);
  const record = { atSeconds, own: true, name, extra: '' } as const;
  if (logged.part === 'deleted slices') return { ...record, operation: 'U' };
  const target = logged.part === 'file' ? await linkTarget(backend, path) : undefined;
  if (target === undefined) return { ...record, operation: 'C' };
  // `../../3F/A2/base`, or `../../../../other path/data/3F/A2/base`.
  const [high = '', low = '', base = ''] = target.split(/[/\\]/).slice(-3);
  const source = `${name.slice(0, 3)}/${high}/${low}/${base}`;
  const isHere = /^(?:\.\.[/\\])*[^/\\]+[/\\][^/\\]+[/\\][^/\\]+$/.test(target);
  if (!isHere || !parseFileName('group', source)) return undefined;
  return { ...record, operation: 'L', extra: source, name };
}

async function linkTarget(backend: FileBackend, path: string): Promise<string | undefined> {
  try {
    return (await backend.readLink(path)).target;
  } catch (error) {
    if (hasCode(error, 'EINVAL')) return undefined;
    throw error;
  }
}

/**
 * Appends records of the replayed changes again: a sender may have read the first ones and
 * looked at the files too early.
 */
async function logReplayed(
  log: Binlog,
  storePaths: readonly StorePath[],
  environment: Environment,
): Promise<void> {
  const atSeconds = nowSeconds(environment);
  const notes = storePaths.flatMap(({ journal }, index) =>
    journal.replayed.map((replayed) => ({
      atSeconds,
      own: true,
      ...noteOf(replayed, `M${hexByte(index)}/`),
    })),
  );
  await Promise.all(notes.map((note) => log.append(note)));
}

function noteOf(
  { change, bytes }: ReplayedChange,
  prefix: string,
): Pick<LogRecord, 'operation' | 'name' | 'extra'> {
  const name = prefix + change.path;
  switch (change.what) {
    case 'move':
      return { operation: 'R', name: prefix + change.to, extra: name };
    case 'append':
      return { operation: 'M', name, extra: `${change.offset} ${bytes}` };
    case 'write':
      return bytes > 0
        ? { operation: 'M', name, extra: `${change.offset} ${bytes}` }
        : { operation: 'T', name, extra: `${change.offset} ${change.size}` };
    default:
      return { operation: 'D', name, extra: '' };
  }
}
