import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, type DiskFile, hasCode, readSmallFile, removeIfThere } from '@stevedore/disk';
import { METADATA_SUFFIX, temporaryDirectory } from '../storage/layout.js';
import type { MoveStep, NewContent } from './move.js';

/** The files of a store path that are on this disk, as moves need them. */

export interface LocalFilesParts {
  readonly disk: Disk;
  /** Of the store path. */
  readonly path: string;
  /** The data directory, with a separator behind it. */
  readonly data: string;
  readonly onStep: (step: MoveStep, name: string) => void;
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

  exists(name: string): Promise<boolean> {
    return this.#parts.disk.exists(this.pathOf(name));
  }

  /** Writes the content under a temporary name, synced, and reads it back. */
  async copyOut(name: string, { bytes, mtimeSeconds }: NewContent): Promise<string> {
    const { disk, path, onStep } = this.#parts;
    this.#temporaries += 1;
    const temporary = join(temporaryDirectory(path), `move-${this.#temporaries}`);
    const file = await disk.create(temporary);
    try {
      await file.writeAt([bytes], 0);
      await file.setModified(mtimeSeconds);
      await file.sync();
      onStep('copied', name);
      const copy = Buffer.allocUnsafe(bytes.length);
      const read = await file.readAt(copy, 0);
      if (read !== bytes.length || crc32(copy) !== crc32(bytes)) {
        throw new Error(`the copy of ${name} does not hold what was written into it`);
      }
      onStep('verified', name);
    } finally {
      await file.close();
    }
    return temporary;
  }

  /** What was copied out gets its name, durably. */
  async giveName(name: string, temporary: string): Promise<void> {
    const { disk } = this.#parts;
    const path = this.pathOf(name);
    await disk.rename(temporary, path);
    await disk.syncDirectory(dirname(path));
  }

  /** What was copied out is not needed. */
  drop(temporary: string): Promise<void> {
    return this.#parts.disk.unlink(temporary);
  }

  /** Undefined if it is larger than `limitBytes`. */
  async read(name: string, limitBytes: number): Promise<NewContent | undefined> {
    const file = await this.#parts.disk.openToRead(this.pathOf(name));
    return contentOf(file, name, limitBytes);
  }

  /** Of a file without a record. */
  metadataBeside(name: string): Promise<Buffer | undefined> {
    return readSmallFile(this.#parts.disk, this.pathOf(name) + METADATA_SUFFIX);
  }

  async delete(name: string): Promise<void> {
    const { disk } = this.#parts;
    const path = this.pathOf(name);
    await removeIfThere(disk, path);
    await removeIfThere(disk, path + METADATA_SUFFIX);
    await disk.syncDirectory(dirname(path));
  }

  /** Undefined if there is no such file. */
  async sizeOf(name: string): Promise<number | undefined> {
    try {
      const file = await this.#parts.disk.openToRead(this.pathOf(name));
      try {
        return (await file.stat()).size;
      } finally {
        await file.close();
      }
    } catch (error) {
      // A link is no data file.
      if (hasCode(error, 'ENOENT') || hasCode(error, 'ELOOP')) return undefined;
      throw error;
    }
  }
}

/** All of a file, which is closed; undefined if that is more than `limitBytes`. */
export async function contentOf(
  file: DiskFile,
  name: string,
  limitBytes: number,
): Promise<NewContent | undefined> {
  try {
    const { size, mtimeSeconds } = await file.stat();
    if (size > limitBytes) return undefined;
    const bytes = Buffer.allocUnsafe(size);
    const read = await file.readAt(bytes, 0);
    if (read !== size) throw new Error(`${name} is ${size - read} bytes short`);
    return { bytes, mtimeSeconds };
  } finally {
    await file.close();
  }
}
