import type { FileCache } from '@stevedore/cache';
import {
  decodeFields,
  type FileId,
  fileKind,
  isTrunkId,
  parseSliceId,
  Status,
  sizeOfField,
} from '@stevedore/protocol';
import { StatusError } from '@stevedore/wire';
import type { SliceReader } from '../slices/slice-reader.js';
import { sliceKey } from './caches.js';
import type { ChangingFiles } from './changing-files.js';
import { ifThere, readInto } from './file-backend.js';
import type { FileStore } from './file-store.js';
import type { OpenFiles } from './open-files.js';

/**
 * Whole small files and slices, through the cache. Every handler that makes, changes or removes a
 * file forgets it in OpenFiles before it answers; that reaches the cache, so that no
 * read that begins afterwards is given earlier bytes. Links are never kept: their
 * target can be deleted without any event for the link.
 */

/** A larger file is sent as it is read, whatever the room in the cache. */
const MAX_SMALL_BYTES = 1024 * 1024;

export interface SmallFilesParts {
  readonly cache: FileCache;
  readonly store: FileStore;
  readonly files: OpenFiles;
  readonly changing: ChangingFiles;
  readonly slices: SliceReader;
}

/** What of a file is asked for; a length of 0 is all that is left. */
export interface FileRange {
  readonly offset: number;
  readonly length: number;
}

/** The file is one that is sent as it is read. */
class NotSmall extends Error {}

export class SmallFiles {
  readonly #parts: SmallFilesParts;
  readonly #maxBytes: number;

  constructor(parts: SmallFilesParts) {
    this.#parts = parts;
    this.#maxBytes = Math.min(MAX_SMALL_BYTES, parts.cache.maxFileBytes);
  }

  /**
   * All of the file's bytes, at once if they are in memory; undefined if it is not small.
   * Status 2 if there is none.
   */
  read(id: FileId): Buffer | undefined | Promise<Buffer | undefined> {
    const { store, cache, slices } = this.#parts;
    const slice = parseSliceId(id);
    if (slice) {
      if (slice.size > (slices.hasRows ? MAX_SMALL_BYTES : this.#maxBytes)) return undefined;
      return slices.read(slice, store.pathOf(slice.trunk));
    }
    if ((sizeOf(id) ?? 0) > this.#maxBytes || this.#maxBytes === 0) return undefined;
    const path = store.pathOf(id);
    return cache.find(path) ?? this.#fetch(id, path);
  }

  /** All of the file's bytes if they are in memory, for a read of a part. */
  find(id: FileId): Buffer | undefined | Promise<Buffer | undefined> {
    const { store, cache, slices } = this.#parts;
    const slice = parseSliceId(id);
    if (slice && slices.isRow(slice, store.pathOf(slice.trunk))) return this.read(id);
    const key = slice ? sliceKey(store.pathOf(slice.trunk), slice) : store.pathOf(id);
    return cache.has(key) ? cache.find(key) : undefined;
  }

  /** A part of a trunk that is one of its slices and is read often; undefined for any other. */
  readPart(id: FileId, { offset, length }: FileRange): Promise<Buffer | undefined> | undefined {
    const { store, slices } = this.#parts;
    if (!slices.hasRows || length === 0 || !isTrunkId(id)) return undefined;
    return slices.readPart(store.pathOf(id), offset, length);
  }

  async #fetch(id: FileId, path: string): Promise<Buffer | undefined> {
    try {
      const bytes = await this.#parts.cache.fetch(path, () => this.#load(id, path));
      if (!bytes) throw new StatusError(Status.notFound, path);
      return bytes;
    } catch (error) {
      if (error instanceof NotSmall) return undefined;
      throw error;
    }
  }

  async #load(id: FileId, path: string): Promise<Buffer | undefined> {
    const { files, changing } = this.#parts;
    const opened = await ifThere(
      fileKind(id) === 'appender' ? changing.acquire(path) : files.acquire(path),
    );
    if (!opened) return undefined;
    try {
      const { size } = opened.stat;
      if (opened.isLinked || size > this.#maxBytes) throw new NotSmall();
      // Not in memory of Node's pool: what is kept would keep all of its piece.
      return await readInto(Buffer.allocUnsafeSlow(size), opened.file, 0);
    } finally {
      opened.release();
    }
  }
}

/** Bytes of the file as its name has them; those of appenders and slaves do not tell. */
export function sizeOf(id: FileId): number | undefined {
  const slice = parseSliceId(id);
  if (slice) return slice.size;
  const kind = fileKind(id);
  if (kind === 'appender' || kind === 'slave') return undefined;
  return sizeOfField(decodeFields(id.base).sizeField);
}
