import { ANY_STORE_PATH, type FileId, type FileName, Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import type { FileStore } from './file-store.js';
import type { Identity } from './identity.js';
import type { OpenFiles } from './open-files.js';
import type { StorageSettings } from './options.js';
import { requestedFile } from './requested-name.js';
import type { Slices } from './slices.js';
import type { StorePath } from './store-path.js';

/** All parts of a storage that its handlers work with. */
export class StorageService {
  readonly settings: StorageSettings;
  readonly identity: Identity;
  readonly storePaths: readonly StorePath[];
  readonly store: FileStore;
  readonly files: OpenFiles;
  readonly slices: Slices;
  #pathTurn = 0;

  constructor(parts: {
    settings: StorageSettings;
    identity: Identity;
    storePaths: readonly StorePath[];
    store: FileStore;
    files: OpenFiles;
    slices: Slices;
  }) {
    this.settings = parts.settings;
    this.identity = parts.identity;
    this.storePaths = parts.storePaths;
    this.store = parts.store;
    this.files = parts.files;
    this.slices = parts.slices;
  }

  /** The file a request names; status 22 or 2 if there can be none. */
  requested(request: FileName): FileId {
    return requestedFile(request, this.settings.group, this.storePaths.length);
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
