import {
  ProtocolError,
  parseTrunkDirectory,
  parseTrunkEnd,
  TAIL_BYTES,
  type TrunkEntry,
} from '@stevedore/protocol';
import { readFileMeta, readPlaces } from '../container/records.js';
import type { AdoptedFile, TrunkRow } from '../filemap/filemap.js';
import { KEY_CHARS, parseKey } from '../key.js';

/** The part of FastDFS that staging needs; the SDK provides the real one. */

export interface TrunkSource {
  /** Bytes that `pieces` will yield. */
  readonly size: number;
  /** Without its dot. */
  readonly extension: string;
  /**
   * Yields the bytes, from the beginning at each call: about a MiB at a time, in pieces that are valid
   * until the next are asked for.
   */
  pieces(): AsyncIterable<readonly Uint8Array[]>;
  /** Called when a copy with an unknown id may have been stored. */
  readonly onLost?: () => void;
}

/** A file as a storage lists it. */
export interface ListedFile {
  readonly fileId: string;
  /** Bytes; undefined for a file that may have changed since it was created. */
  readonly size: number | undefined;
  readonly crc32: number | undefined;
  /** By the storage's clock, in Unix milliseconds. */
  readonly createdAt: number;
}

/** Which storages of its group have a file. */
export interface Replicas {
  /** `host:port` of the storages that have it, with the size and CRC-32 of its id. */
  readonly holders: readonly string[];
  /** Active storages of its group. */
  readonly members: number;
}

export interface TrunkStore {
  /**
   * Stores a new file and returns its full FastDFS id, which contains size and CRC-32. Calls the
   * source's `onLost` for a copy whose id is unknown.
   */
  store(source: TrunkSource, signal: AbortSignal): Promise<string>;
  /** Does nothing if there is no such file. */
  remove(fileId: string, signal: AbortSignal): Promise<void>;
  /**
   * Bytes of a stored file, from the given holder or else from any. Rejects with StoreError
   * `not_found` if there is none.
   */
  read(
    fileId: string,
    offset: number,
    length: number,
    signal: AbortSignal,
    holder?: string,
  ): Promise<Buffer>;
  replicas(fileId: string, signal: AbortSignal): Promise<Replicas>;
  /** Size of a file whose id does not contain it; undefined if there is no such file. */
  sizeOf(fileId: string, signal: AbortSignal): Promise<number | undefined>;
  /**
   * Lists every file, some more than once. Resolves with a sentence for each storage or path that
   * could not be listed; files that are only there are missing.
   */
  list(onFile: (file: ListedFile) => void, signal: AbortSignal): Promise<readonly string[]>;
}

/** Reads a trunk's directory back from FastDFS, to rebuild a lost FileMap. */

/** Throws ProtocolError for a trunk that is not one of ours. */
export async function readTrunkDirectory(
  store: TrunkStore,
  trunk: Pick<TrunkRow, 'fileId' | 'size' | 'taskId'>,
  signal: AbortSignal,
): Promise<AdoptedFile[]> {
  const { fileId } = trunk;
  const tailBytes = Math.min(TAIL_BYTES, trunk.size);
  const tail = await store.read(fileId, trunk.size - tailBytes, tailBytes, signal);
  const end = parseTrunkEnd(tail, trunk.size);
  const task = readJson(end.comment).taskId;
  if (task !== trunk.taskId.toString('base64url')) {
    throw new ProtocolError(`${fileId} is the trunk of another task (${String(task)})`);
  }
  const bytes = await store.read(fileId, end.directoryOffset, end.directoryBytes, signal);
  return parseTrunkDirectory(bytes, end).map((entry) => adopt(fileId, entry));
}

function adopt(fileId: string, entry: TrunkEntry): AdoptedFile {
  const key = parseKey(entry.name.slice(0, KEY_CHARS));
  if (!key) throw new ProtocolError(`entry "${entry.name}" of ${fileId} is not named by a key`);
  const { was, ...about } = readAbout(entry.comment);
  const { size, crc32, offset } = entry;
  return { file: { ...about, key, size, crc32 }, offset, was };
}

/** Parses what a trunk's directory, or the map of a deployment, says about a file. */
export function readAbout(text: string) {
  const about = readJson(text);
  return {
    ...readFileMeta(about),
    stagedAt: Number(about.stagedAt ?? 0),
    was: readPlaces(about.was),
  };
}

function readJson(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
