import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, type DiskFile, removeIfThere } from '@stevedore/disk';
import { DELETED_SUFFIX, TEMPORARY_DIRECTORY } from '../layout.js';
import { decodeRecords, type JournalChange, type JournalRecord } from './change-journal-format.js';
import { chunksOf, copyBytes, type FileBackend } from './file-backend.js';

/**
 * Replays changes that a crash interrupted. Replaying is idempotent: the journal has every
 * change of a file since the first one it contains. Changes of a file are made one at a time, so
 * each of them was durable, or undone, before the next one was recorded: an append counts only as
 * the last record of its file, and voids the earlier ones.
 */

/** A replayed change, and the bytes it wrote. */
export interface ReplayedChange {
  readonly change: JournalChange;
  readonly bytes: number;
}

/** Returns the replayed changes: each may have been applied only now. */
export async function replayChanges(
  disk: Disk,
  backend: FileBackend,
  directory: string,
  journal: Buffer,
): Promise<ReplayedChange[]> {
  const records = [...decodeRecords(journal)];
  /** The last record of each file that voids its earlier ones. */
  const settled = new Map<string, number>();
  const last = new Map<string, number>();
  for (const { sequence, change } of records) {
    if (change.what !== 'write') settled.set(change.path, sequence);
    last.set(change.path, sequence);
  }
  /** One path for each changed directory. */
  const touched = new Map<string, string>();
  const replayed: ReplayedChange[] = [];
  for (const record of records) {
    const { change, sequence } = record;
    const voids = change.what === 'append' ? last : settled;
    const isVoid = sequence < (voids.get(change.path) ?? 0);
    if (isVoid || change.what === 'settled') continue;
    const path = join(directory, change.path);
    const isOfContent = change.what === 'write' || change.what === 'append';
    if (isOfContent && backend.isAtomic(path)) continue;
    const bytes = await redo(disk, backend, directory, record);
    if (bytes !== undefined) replayed.push({ change, bytes });
    touched.set(dirname(path), path);
  }
  for (const path of touched.values()) await backend.sync(path);
  return replayed;
}

/** Returns the bytes written; undefined if there was nothing to do. */
async function redo(
  disk: Disk,
  backend: FileBackend,
  directory: string,
  record: JournalRecord,
): Promise<number | undefined> {
  const { change } = record;
  const path = join(directory, change.path);
  const isThere = await backend.exists(path);
  switch (change.what) {
    case 'write':
      return isThere ? write(disk, backend, directory, change, record.body) : undefined;
    case 'append':
      return isThere ? keepOrCut(backend, path, change) : undefined;
    case 'move': {
      const to = join(directory, change.to);
      if (isThere || (await backend.exists(to))) await backend.move(path, to);
      else await backend.setMetadata(path, undefined);
      return isThere ? 0 : undefined;
    }
    case 'remove':
      if (isThere) return undefined;
      await removeIfThere(disk, path + DELETED_SUFFIX);
      await backend.setMetadata(path, undefined);
      return 0;
    case 'settled':
      return undefined;
  }
}

/**
 * Keeps an append that is there as a whole, cuts off another. Returns the bytes kept. They are written
 * again: those of an earlier sync that failed would not be synced now.
 */
async function keepOrCut(
  backend: FileBackend,
  path: string,
  { offset, bytes, crc32: crc }: Extract<JournalChange, { what: 'append' }>,
): Promise<number | undefined> {
  const file = await backend.openToChange(path);
  try {
    const { size } = await file.stat();
    // Nothing of it was written, or the file is another one by now.
    if (size <= offset) return undefined;
    const isWhole = size === offset + bytes && (await writeAgain(file, offset, bytes)) === crc;
    if (!isWhole) await file.truncate(offset);
    await file.sync();
    return isWhole ? bytes : undefined;
  } finally {
    await file.close();
  }
}

/** Returns the CRC-32 of the bytes. */
async function writeAgain(file: DiskFile, offset: number, bytes: number): Promise<number> {
  let crc = 0;
  let at = offset;
  for await (const chunk of chunksOf(file, bytes, offset)) {
    crc = crc32(chunk, crc);
    await file.writeAt([chunk], at);
    at += chunk.length;
  }
  return crc;
}

async function write(
  disk: Disk,
  backend: FileBackend,
  directory: string,
  { path, offset, size, piece }: Extract<JournalChange, { what: 'write' }>,
  body: Buffer,
): Promise<number | undefined> {
  const piecePath = piece && join(directory, TEMPORARY_DIRECTORY, piece);
  // The record failed to sync, and its client got an error before the file was touched.
  if (piecePath && !(await disk.exists(piecePath))) return undefined;
  const file = await backend.openToChange(join(directory, path));
  try {
    let bytes = body.length;
    if (piecePath) {
      const source = await disk.openToRead(piecePath);
      try {
        bytes = (await source.stat()).size;
        await copyBytes(source, bytes, file, offset);
      } finally {
        await source.close();
      }
    } else await file.writeAt([body], offset);
    if ((await file.stat()).size !== size) await file.truncate(size);
    await file.sync();
    return bytes;
  } finally {
    await file.close();
  }
}
