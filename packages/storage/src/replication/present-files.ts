import { join } from 'node:path';
import { type Disk, hasCode } from '@stevedore/disk';
import { decodeFields, encodePath, hexByte, parseFileName } from '@stevedore/protocol';
import type { FileBackend } from '../files/file-backend.js';
import { DELETED_SUFFIX, dataDirectory, METADATA_SUFFIX } from '../layout.js';
import type { LogRecord } from './log-record.js';

/**
 * The files of a store path without a log: one that was filled before there was
 * one, or whose log is lost. Every file counts as made here, at the time in its
 * name; what another member was the source of is sent to it in vain, once.
 */
export async function* presentFiles(
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
      // Files first, so that what belongs to them finds them.
      const order = (name: string): number => (isBeside(name) ? 1 : 0);
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

function isBeside(name: string): boolean {
  return name.endsWith(METADATA_SUFFIX) || name.endsWith(DELETED_SUFFIX);
}

async function recordOf(
  backend: FileBackend,
  path: string,
  name: string,
): Promise<LogRecord | undefined> {
  const bare = name.replace(new RegExp(`(${METADATA_SUFFIX}|${DELETED_SUFFIX})$`), '');
  const id = parseFileName('group', bare);
  if (!id) return undefined;
  const atSeconds = Math.max(decodeFields(id.base).createdAtSeconds, 0);
  const record = { atSeconds, own: true, name, extra: '' } as const;
  if (name.endsWith(DELETED_SUFFIX)) return { ...record, operation: 'U' };
  const target = isBeside(name) ? undefined : await linkTarget(backend, path);
  if (target === undefined) return { ...record, operation: 'C' };
  // `../../3F/A2/base`, or `../../../../other path/data/3F/A2/base`.
  const [high = '', low = '', base = ''] = target.split(/[/\\]/).slice(-3);
  const source = `${name.slice(0, 3)}/${high}/${low}/${base}`;
  const sameStorePath = target
    .split(/[/\\]/)
    .slice(0, -3)
    .every((part) => part === '..');
  if (!sameStorePath || !parseFileName('group', source)) return undefined;
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
