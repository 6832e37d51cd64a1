import { constants } from 'node:fs';
import { access, rename } from 'node:fs/promises';
import { type Disk, hasCode, readSmallFile, replaceFile } from '@stevedore/disk';
import { StoreError } from '../errors.js';
import { FileMap } from '../filemap/filemap.js';
import type { Publishes } from '../filemap/outbox.js';
import type { FileMapChange } from '../filemap/rows.js';
import { FOLDERS } from '../folders.js';
import { RecordType } from './record.js';
import { changeOfRecord } from './records.js';
import { Segment, segmentNumbers } from './segment.js';
import { scanSegment } from './segment-scan.js';

/**
 * Recovery at start: whatever a crash left behind, container and FileMap agree before the first
 * call is served. A damaged FileMap is moved aside and rebuilt from the container.
 */

const APPLY_PAGE = 500;
const MAX_ORIGIN_BYTES = 64;

export interface RecoveredContainer {
  readonly segments: readonly Segment[];
  readonly nextSegment: number;
  /** Segments of which the FileMap knows records that the disk does not have. */
  readonly short: readonly number[];
  /** Files whose bytes were found damaged. */
  readonly damaged: number;
}

/** Creates the folders. Throws StoreError `directory_unusable` if the directory is not writable. */
export async function prepareFolders(disk: Disk, directory: string): Promise<void> {
  try {
    for (const folder of FOLDERS) await disk.makeDirectory(`${directory}/${folder}`);
    await access(directory, constants.W_OK);
    await disk.syncDirectory(directory);
  } catch (error) {
    const reason = (error as Error).message;
    throw new StoreError(
      'directory_unusable',
      `${directory} cannot be used (${reason}); check that it is a directory this user can write to`,
      { cause: error },
    );
  }
}

/** The origin of this directory's keys, chosen once. */
export async function readOrigin(
  disk: Disk,
  directory: string,
  choose: () => number | Promise<number>,
): Promise<number> {
  const text = (await readSmallFile(disk, `${directory}/origin`, MAX_ORIGIN_BYTES))?.toString();
  const known = parseOrigin(text ?? '');
  if (known !== undefined) return known;
  const origin = await choose();
  await replaceFile(disk, directory, 'origin', `${origin}\n`);
  return origin;
}

export function parseOrigin(text: string): number | undefined {
  return /^\d{1,5}\s*$/.test(text) && Number(text) <= 0xffff ? Number(text) : undefined;
}

export async function openFileMap(
  directory: string,
  publishes: Publishes,
  now: number,
  onProblem: (error: Error) => void,
): Promise<FileMap> {
  const path = `${directory}/filemap.sqlite`;
  try {
    return FileMap.open(path, publishes);
  } catch (error) {
    if (!hasCode(error, 'SQLITE_CORRUPT') && !hasCode(error, 'SQLITE_NOTADB')) throw error;
    const aside = `${path}.damaged-${now}`;
    onProblem(
      new StoreError(
        'corrupt',
        `the FileMap is damaged (${(error as Error).message}); it is kept as ${aside} and rebuilt from the container`,
        { cause: error },
      ),
    );
    for (const suffix of ['', '-wal', '-shm']) await renameIfThere(path + suffix, aside + suffix);
    return FileMap.open(path, publishes);
  }
}

/**
 * Replays every record that the FileMap lacks. Bytes may never have been synced: a killed process
 * may have written them last, and another process may have failed to sync them and to start. They
 * are rewritten and synced before anything depends on them.
 */
export async function replayContainer(
  disk: Disk,
  folder: string,
  fileMap: FileMap,
  now: number,
): Promise<RecoveredContainer> {
  const numbers = await segmentNumbers(disk, folder);
  const segments: Segment[] = [];
  let damaged = 0;
  // A crash between removing a segment and forgetting it leaves a number without a file. Nothing in
  // it is needed any more.
  const short = fileMap.segments().filter((number) => !numbers.includes(number));
  try {
    await disk.syncDirectory(folder);
    for (const number of numbers) {
      const synced = fileMap.syncedBytes(number);
      // If the FileMap does not know, all but the newest were synced before the next one was begun.
      const isKnown = synced > 0 || number === numbers.at(-1);
      segments.push(await Segment.open(disk, folder, number, isKnown ? synced : Infinity));
    }
    for (const [index, segment] of segments.entries()) {
      const { number } = segment;
      await segment.sync();
      const [synced, indexed] = [fileMap.syncedBytes(number), fileMap.indexedBytes(number)];
      if (!(await isWhole(segment, synced, indexed))) short.push(number);
      for (const key of await replaySegment(segment, segments[index + 1], fileMap)) {
        if (fileMap.addDamage({ key, place: 'container', holder: '', foundAt: now })) damaged += 1;
      }
    }
  } catch (error) {
    await Promise.allSettled(segments.map((segment) => segment.close()));
    throw error;
  }
  const last = Math.max(numbers.at(-1) ?? 0, fileMap.lastSegment());
  return { segments, nextSegment: last + 1, short, damaged };
}

/** True if all records from `from` to `to`, both record boundaries, are intact. */
async function isWhole(segment: Segment, from: number, to: number): Promise<boolean> {
  if (segment.bytes < to) return false;
  if (from >= to) return true;
  for await (const { end } of scanSegment(segment, from)) if (end >= to) return true;
  return false;
}

/**
 * Returns the keys of the files whose bytes are damaged. For a segment that the FileMap does not
 * know, the next segment's header tells how much was acknowledged.
 */
export async function replaySegment(
  segment: Segment,
  successor: Segment | undefined,
  fileMap: FileMap,
): Promise<Buffer[]> {
  const begun = fileMap.indexedBytes(segment.number);
  const acknowledged = begun === 0 ? ((await successor?.header())?.previousBytes ?? 0) : 0;
  const damaged: Buffer[] = [];
  let end = begun;
  let changes: FileMapChange[] = [];
  for await (const record of scanSegment(segment, begun, acknowledged)) {
    end = record.end;
    const { header, meta, body, bodyPosition } = record;
    // The members of a plan may be damaged.
    const isWhole = header.type !== RecordType.plan || body !== undefined;
    const change = isWhole ? changeOfRecord({ ...header, meta }, body, bodyPosition) : undefined;
    // A deleted file never comes back, whatever the order of its records.
    const isFile = change?.what === 'file' || change?.what === 'moved';
    if (!change || (isFile && fileMap.isDeleted(change.key))) continue;
    if (isFile && change.at === 'container' && !record.isSound) damaged.push(change.key);
    changes.push(change);
    if (changes.length >= APPLY_PAGE) {
      fileMap.apply(changes, segment.number, end, end);
      changes = [];
    }
  }
  if (end > begun) fileMap.apply(changes, segment.number, end, end);
  else fileMap.setSynced(Math.min(end, segment.bytes), segment.number);
  // Bytes after the last intact record were never acknowledged.
  segment.bytes = Math.min(end, segment.bytes);
  segment.end = segment.bytes;
  return damaged.filter((key) => fileMap.find(key)?.local.segment === segment.number);
}

async function renameIfThere(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
  }
}
