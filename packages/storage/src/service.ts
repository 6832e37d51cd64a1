import type { FileCache } from '@stevedore/cache';
import {
  ANY_STORE_PATH,
  type FileId,
  type FileName,
  fileKind,
  parseSliceId,
  Status,
} from '@stevedore/protocol';
import { StatusError } from '@stevedore/wire';
import type { ChangingFiles } from './files/changing-files.js';
import type { FileBackend } from './files/file-backend.js';
import { requestedFile } from './files/file-names.js';
import type { FileStore } from './files/file-store.js';
import type { FileLocks } from './files/locks.js';
import type { MetadataStore } from './files/metadata-store.js';
import type { OpenFile, OpenFiles } from './files/open-files.js';
import type { SmallFiles } from './files/small-files.js';
import type { StorePath } from './files/store-path.js';
import type { Identity } from './identity.js';
import type { Replication } from './replication/replication.js';
import type { Slices } from './slices/slices.js';
import type { StorageSettings } from './storage-options.js';

export interface StorageParts {
  readonly settings: StorageSettings;
  readonly backend: FileBackend;
  readonly identity: Identity;
  readonly storePaths: readonly StorePath[];
  readonly store: FileStore;
  readonly files: OpenFiles;
  readonly changing: ChangingFiles;
  readonly metadata: MetadataStore;
  readonly slices: Slices;
  readonly replication: Replication;
  readonly cache: FileCache;
  readonly small: SmallFiles;
  /** By path: a file is changed under its lock. */
  readonly locks: FileLocks;
}

/** All parts of a storage that its handlers work with. */
export class StorageService {
  readonly settings: StorageSettings;
  readonly backend: FileBackend;
  readonly identity: Identity;
  readonly storePaths: readonly StorePath[];
  readonly store: FileStore;
  readonly files: OpenFiles;
  readonly changing: ChangingFiles;
  readonly metadata: MetadataStore;
  readonly slices: Slices;
  readonly replication: Replication;
  readonly cache: FileCache;
  /** Whole small files, through the cache. */
  readonly small: SmallFiles;
  readonly locks: FileLocks;
  #pathTurn = 0;

  constructor(parts: StorageParts) {
    this.settings = parts.settings;
    this.backend = parts.backend;
    this.identity = parts.identity;
    this.storePaths = parts.storePaths;
    this.store = parts.store;
    this.files = parts.files;
    this.changing = parts.changing;
    this.metadata = parts.metadata;
    this.slices = parts.slices;
    this.replication = parts.replication;
    this.cache = parts.cache;
    this.small = parts.small;
    this.locks = parts.locks;
  }

  /** The file a request names; status 22 or 2 if there can be none. */
  requested(request: FileName): FileId {
    return requestedFile(request, this.settings.group, this.storePaths.length);
  }

  /** The file, or the trunk that a slice lies in, open; status 2 if there is none. */
  open(id: FileId): Promise<OpenFile> {
    const slice = parseSliceId(id);
    if (slice) return this.slices.open(slice, this.store.pathOf(slice.trunk));
    const path = this.store.pathOf(id);
    return fileKind(id) === 'appender' ? this.changing.acquire(path) : this.files.acquire(path);
  }

  /** True if there is such a file or slice. */
  async has(id: FileId): Promise<boolean> {
    try {
      (await this.open(id)).release();
      return true;
    } catch (error) {
      if (error instanceof StatusError && error.status === Status.notFound) return false;
      throw error;
    }
  }

  /**
   * The store path for an upload of this size: the one asked for, or the next
   * one with room. Status 22 if there is no such path, 28 if there is no room.
   */
  async roomFor(bytes: number, asked: number): Promise<{ index: number; storePath: StorePath }> {
    const count = this.storePaths.length;
    if (asked !== ANY_STORE_PATH && asked >= count) {
      throw new StatusError(Status.invalid, `no store path ${asked}`);
    }
    const first = asked === ANY_STORE_PATH ? this.#pathTurn++ : asked;
    const choices = asked === ANY_STORE_PATH ? count : 1;
    const reservedBytes = this.settings.reservedSpaceMegabytes * 1024 * 1024;
    for (let step = 0; step < choices; step++) {
      const index = (first + step) % count;
      const storePath = this.storePaths[index]!;
      const { freeBytes } = await storePath.space();
      if (freeBytes - bytes >= reservedBytes) return { index, storePath };
    }
    throw new StatusError(Status.noSpace, `no room for ${bytes} bytes`);
  }
}
