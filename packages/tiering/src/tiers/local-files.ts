import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, hasCode, readSmallFile, removeIfThere } from '@stevedore/disk';
import { METADATA_SUFFIX, type ReadableFile, temporaryDirectory } from '@stevedore/storage';

/** Operations on the files of a store path on this disk, as moves need them. */

export interface LocalFilesParts {
  readonly disk: Disk;
  /** Of the store path. */
  readonly path: string;
  /** The data directory, with a trailing separator. */
  readonly data: string;
}

export interface CopySource {
  readonly size: number;
  readonly crc32: number;
  readonly mtimeSeconds: number;
  readonly chunks: () => AsyncIterable<Buffer>;
}

export class LocalFiles {
  readonly #parts: LocalFilesParts;
  #temporaries = 0;

  constructor(parts: LocalFilesParts) {
    this.#parts = parts;
  }

  pathOf(name: string): string {
    return join(this.#parts.data, name);
  }

  /** An unused temporary name. */
  temporaryFile(): string {
    this.#temporaries += 1;
    return join(temporaryDirectory(this.#parts.path), `tier-${this.#temporaries}`);
  }

  exists(name: string): Promise<boolean> {
    return this.#parts.disk.exists(this.pathOf(name));
  }

  /** Writes the content under a temporary name, synced; leaves nothing if that fails. */
  async copyOut(name: string, source: CopySource): Promise<string> {
    const { disk } = this.#parts;
    const temporary = this.temporaryFile();
    try {
      const file = await disk.create(temporary);
      try {
        let size = 0;
        let sum = 0;
        for await (const chunk of source.chunks()) {
          await file.writeAt([chunk], size);
          size += chunk.length;
          sum = crc32(chunk, sum);
        }
        if (size !== source.size || sum !== source.crc32) throw new Error(`${name} is damaged`);
        await file.setModified(source.mtimeSeconds);
        await file.sync();
      } finally {
        await file.close();
      }
      return temporary;
    } catch (error) {
      await removeIfThere(disk, temporary);
      throw error;
    }
  }

  /** Gives a copy its name, durably, or removes it. */
  async giveName(name: string, temporary: string): Promise<void> {
    const { disk } = this.#parts;
    const directory = dirname(this.pathOf(name));
    try {
      await this.#makeDirectory(directory);
      await disk.rename(temporary, this.pathOf(name));
      await disk.syncDirectory(directory);
    } catch (error) {
      await removeIfThere(disk, temporary);
      // Unless its directory is synced, a later deletion would not know of it.
      await removeIfThere(disk, this.pathOf(name));
      throw error;
    }
  }

  /** Rows need no directory, so that of this name may not exist yet. */
  async #makeDirectory(directory: string): Promise<void> {
    const { disk } = this.#parts;
    if (await disk.exists(directory)) return;
    await disk.makeDirectory(directory);
    await disk.syncDirectory(dirname(directory));
    await disk.syncDirectory(dirname(dirname(directory)));
  }

  /** Removes a copy, or a file written to become one. */
  async drop(temporary: string): Promise<void> {
    await removeIfThere(this.#parts.disk, temporary);
  }

  open(name: string): Promise<ReadableFile> {
    return this.#parts.disk.openToRead(this.pathOf(name));
  }

  /** Metadata in a file beside it, for files without a record. */
  metadataBeside(name: string): Promise<Buffer | undefined> {
    return readSmallFile(this.#parts.disk, this.pathOf(name) + METADATA_SUFFIX);
  }

  async delete(name: string): Promise<void> {
    const { disk } = this.#parts;
    const path = this.pathOf(name);
    await removeIfThere(disk, path);
    await removeIfThere(disk, path + METADATA_SUFFIX);
    if (await disk.exists(dirname(path))) await disk.syncDirectory(dirname(path));
  }

  /** Size and time; undefined if there is no such file. */
  async statOf(name: string): Promise<{ size: number; mtimeSeconds: number } | undefined> {
    try {
      const file = await this.open(name);
      try {
        return await file.stat();
      } finally {
        await file.close();
      }
    } catch (error) {
      // A link is not a stored file.
      if (hasCode(error, 'ENOENT') || hasCode(error, 'ELOOP')) return undefined;
      throw error;
    }
  }
}
