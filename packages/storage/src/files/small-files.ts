import type { FileCache } from '@stevedore/cache';
import {
  decodeSizeField,
  type FileId,
  fileKind,
  parseSliceId,
  type SliceId,
  sizeOfField,
} from '@stevedore/protocol';
import { ifThere, notFound } from '../refusals.js';
import type { SliceReader } from '../slices/slice-reader.js';
import { sliceKey } from './caches.js';
import type { ChangingFiles } from './changing-files.js';
import { type FileBackend, readInto } from './file-backend.js';
import type { FileStore } from './file-store.js';
import type { OpenFiles } from './open-files.js';

/**
 * Reads whole small files and slices through the cache. Every creation, change and removal of
 * a file calls `OpenFiles.forget` before it is answered, which also evicts it here: no later
 * read gets stale bytes. Links are never cached, as deleting their target does not evict them.
 */

/** Larger files are streamed, whatever the size of the cache. */
const MAX_SMALL_BYTES = 1024 * 1024;

export interface SmallFilesParts {
  readonly cache: FileCache;
  readonly store: FileStore;
  readonly files: OpenFiles;
  readonly changing: ChangingFiles;
  readonly slices: SliceReader;
  /** As `FileBackend.readNow`. */
  readonly readNow: NonNullable<FileBackend['readNow']>;
}

/** The requested part of a file; a length of 0 means up to the end. */
export interface FileRange {
  readonly offset: number;
  readonly length: number;
}

/** A request for bytes of a file, with what the file's id says, decoded once. */
export interface Download extends FileRange {
  readonly id: FileId;
  readonly path: string;
  readonly slice: SliceId | undefined;
  /** Undefined for appenders and slaves. */
  readonly size: number | undefined;
}

/** Thrown for a file that has to be streamed. */
class NotSmall extends Error {}

export class SmallFiles {
  readonly #parts: SmallFilesParts;
  readonly #maxBytes: number;

  constructor(parts: SmallFilesParts) {
    this.#parts = parts;
    this.#maxBytes = Math.min(MAX_SMALL_BYTES, parts.cache.maxFileBytes);
  }

  /**
   * All bytes of the file, synchronously if they are in memory; undefined if it is not small.
   * Status 2 if there is none.
   */
  read({ id, path, slice, size }: Download): Buffer | undefined | Promise<Buffer | undefined> {
    const { store, cache, slices } = this.#parts;
    if (slice) {
      if (slice.size > this.#maxBytes) return undefined;
      return slices.read(slice, store.pathOf(slice.trunk));
    }
    const { readNow } = this.#parts;
    if (this.#maxBytes === 0 || (size ?? 0) > this.#maxBytes) {
      return size === undefined ? undefined : readNow(path, size);
    }
    const found = cache.find(path);
    if (found || size === undefined) return found ?? this.#fetch(id, path);
    return cache.fetchNow(path, () => readNow(path, size)) ?? this.#fetch(id, path);
  }

  /** All bytes of the file if they are in memory, for a read of a part. */
  find({ path, slice }: Download): Buffer | undefined {
    const { store, cache } = this.#parts;
    const key = slice ? sliceKey(store.pathOf(slice.trunk), slice) : path;
    return cache.has(key) ? cache.find(key) : undefined;
  }

  async #fetch(id: FileId, path: string): Promise<Buffer | undefined> {
    try {
      const bytes = await this.#parts.cache.fetch(path, () => this.#load(id, path));
      if (!bytes) throw notFound(path);
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
      if (opened.file.bytes) return opened.file.bytes;
      // Not from Node's pool: a cached buffer would keep its whole pool block alive.
      return await readInto(Buffer.allocUnsafeSlow(size), opened.file, 0);
    } finally {
      opened.release();
    }
  }
}

/** The file's size according to its name; undefined for appenders and slaves. */
function sizeOf(id: FileId): number | undefined {
  const field = decodeSizeField(id.base);
  const kind = fileKind(id, field);
  return kind === 'appender' || kind === 'slave' ? undefined : sizeOfField(field);
}

export function downloadOf(id: FileId, path: string, { offset, length }: FileRange): Download {
  const slice = parseSliceId(id);
  return { id, path, slice, size: slice ? slice.size : sizeOf(id), offset, length };
}
