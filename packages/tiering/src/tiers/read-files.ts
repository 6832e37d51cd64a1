import { crc32 } from 'node:zlib';
import type { FileStat } from '@stevedore/disk';
import { Status } from '@stevedore/protocol';
import type { ReadableFile } from '@stevedore/storage';
import { codeOf, StatusError } from '@stevedore/wire';
import type { AwayFiles } from './away-files.js';
import type { FileRecord } from './record-rows.js';

/** Files that are open for reading and are not on the disk. */

/** Content in memory: what a row holds. */
export function rowFile(bytes: Buffer, mtimeSeconds: number): ReadableFile {
  return {
    stat: async () => ({ size: bytes.length, mtimeSeconds, isFile: true }),
    readAt: async (target, position) =>
      position < bytes.length ? bytes.copy(target, 0, position) : 0,
    close: async () => {},
  };
}

/** Content in another group: each read is a download of its range. */
export class AwayFile implements ReadableFile {
  readonly #away: AwayFiles;
  readonly #record: FileRecord;

  constructor(away: AwayFiles, record: FileRecord) {
    this.#away = away;
    this.#record = record;
  }

  async stat(): Promise<FileStat> {
    const { size, mtimeSeconds } = this.#record;
    return { size, mtimeSeconds, isFile: true };
  }

  async readAt(target: Buffer, position: number): Promise<number> {
    const { size, crc32: sum } = this.#record;
    const wanted = Math.min(target.length, size - position);
    if (wanted <= 0) return 0;
    const bytes = await this.#read(position, wanted);
    const isWhole = wanted === size;
    if (bytes.length !== wanted || (isWhole && crc32(bytes) !== sum)) {
      throw damaged(`${this.#record.away} has other bytes than ${this.#record.name}`);
    }
    return bytes.copy(target);
  }

  async close(): Promise<void> {}

  async #read(position: number, bytes: number): Promise<Buffer> {
    const id = this.#record.away!;
    try {
      return await this.#away.read(id, position, bytes);
    } catch (error) {
      // The file is there, whatever the other group says: its name must not look free.
      if (codeOf(error) === 'not_found') throw damaged(`${id} is lost`);
      throw Object.assign(new StatusError(Status.tryAgain, `${id} cannot be read`), {
        cause: error,
      });
    }
  }
}

function damaged(message: string): Error {
  return Object.assign(new Error(message), { code: 'EIO' });
}
