import { join } from 'node:path';
import {
  encodeFields,
  encodePath,
  encodeTail,
  type FileId,
  normalSizeField,
  parseFileName,
  RANDOM_BITS,
  Status,
  TAIL_CHARS,
} from '@stevedore/protocol';
import { type Environment, nowSeconds, randomDigits } from '../environment.js';
import { asError, StatusError } from '../errors.js';
import type { Payload } from '../net/payload.js';
import type { DirectoryRotation } from './directory-rotation.js';
import type { StorageDisk } from './disk.js';
import { IncomingFile } from './incoming-file.js';
import { fileDirectory, filePath } from './layout.js';
import { foreseen, type OpenFiles } from './open-files.js';
import type { StorePath } from './store-path.js';

/**
 * Stored files. A file appears whole, durable and under a name that no other
 * file has, or not at all; then it never changes.
 */

export interface NewFile {
  readonly storePathIndex: number;
  readonly extension: string;
  /** This storage as file names give it: IPv4 text. */
  readonly source: string;
}

interface Name {
  readonly id: FileId;
  readonly path: string;
}

export interface FileStoreParts {
  readonly group: string;
  readonly disk: StorageDisk;
  readonly environment: Environment;
  readonly storePaths: readonly StorePath[];
  readonly rotation: DirectoryRotation;
  readonly files: OpenFiles;
  readonly onError: (error: Error) => void;
}

/** Draws of random bits before a name clash is called impossible. */
const MAX_NAME_DRAWS = 16;

export class FileStore {
  readonly #parts: FileStoreParts;
  /** Names given to uploads that are not on disk yet. */
  readonly #reserved = new Set<string>();

  constructor(parts: FileStoreParts) {
    this.#parts = parts;
  }

  /** Where the file of this name is, if it is anywhere. */
  pathOf(id: FileId): string {
    return filePath(this.#storePath(id.storePathIndex).path, id);
  }

  /** Receives a file and answers with its name once it is durable. */
  async store(file: NewFile, payload: Payload): Promise<FileId> {
    const { disk, environment } = this.#parts;
    const storePath = this.#storePath(file.storePathIndex);
    const incoming = await IncomingFile.create(disk, storePath.temporaryFile());
    try {
      await incoming.receive(payload);
      const createdAtSeconds = nowSeconds(environment);
      await incoming.finish(createdAtSeconds);
      return await this.#name(file, incoming, createdAtSeconds);
    } catch (error) {
      await incoming.discard().catch(() => {});
      throw error;
    }
  }

  /** Removes a file durably; status 2 if it is not there. */
  async remove(path: string): Promise<void> {
    const { disk, files } = this.#parts;
    try {
      await disk.unlink(path);
    } catch (error) {
      throw foreseen(error, path);
    }
    // After the unlink, so that no reader opens it again.
    files.forget(path);
    await disk.syncDirectory(join(path, '..'));
  }

  async #name(file: NewFile, incoming: IncomingFile, createdAtSeconds: number): Promise<FileId> {
    const { disk, rotation } = this.#parts;
    const storePath = this.#storePath(file.storePathIndex);
    const { high, low } = rotation.next();
    await storePath.makePair(high, low);
    const name = await this.#reserve(file, incoming, createdAtSeconds, high, low);
    try {
      await incoming.moveTo(name.path);
      await disk.syncDirectory(fileDirectory(storePath.path, name.id));
      return name.id;
    } catch (error) {
      // Whatever of it is there was not answered for.
      await disk.unlink(name.path).catch(() => {});
      throw error;
    } finally {
      this.#reserved.delete(name.path);
    }
  }

  /** A name that no file has. Only this process gives names here, so a look suffices. */
  async #reserve(
    file: NewFile,
    incoming: IncomingFile,
    createdAtSeconds: number,
    high: number,
    low: number,
  ): Promise<Name> {
    const { disk, environment, group } = this.#parts;
    const { bytes, crc32 } = incoming;
    for (let draw = 0; draw < MAX_NAME_DRAWS; draw++) {
      const sizeField = normalSizeField(bytes, environment.random(2 ** RANDOM_BITS));
      const fields = encodeFields({ source: file.source, createdAtSeconds, sizeField, crc32 });
      const tail = encodeTail(file.extension, randomDigits(environment, TAIL_CHARS));
      const text = `${encodePath(file.storePathIndex, high, low)}${fields}${tail}`;
      const id = parseFileName(group, text);
      if (!id) throw new TypeError(`"${text}" is not a file name`);
      const path = this.pathOf(id);
      if (this.#reserved.has(path)) continue;
      this.#reserved.add(path);
      try {
        if (!(await disk.exists(path))) return { id, path };
      } catch (error) {
        this.#reserved.delete(path);
        throw asError(error);
      }
      this.#reserved.delete(path);
    }
    throw new StatusError(Status.busy, 'no unique name');
  }

  #storePath(index: number): StorePath {
    const storePath = this.#parts.storePaths[index];
    if (!storePath) throw new StatusError(Status.invalid, `no store path ${index}`);
    return storePath;
  }
}
