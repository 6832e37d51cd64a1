import { crc32 } from 'node:zlib';
import type { Disk, DiskFile, FileStat } from '@stevedore/disk';
import { Status } from '@stevedore/protocol';
import { codeOf, StatusError } from '@stevedore/wire';
import type { AwayFiles } from './away-files.js';
import type { FileRecord } from './record-rows.js';
import { SpillingFile } from './spilling-file.js';
import type { Tier } from './tier.js';

/** Files that are open for reading and are not on the disk. */

/** Whatever would change it is refused. */
abstract class ReadOnlyFile implements DiskFile {
  abstract stat(): Promise<FileStat>;
  abstract readAt(target: Buffer, position: number): Promise<number>;

  writeAt(): Promise<void> {
    return Promise.reject(readOnly());
  }

  truncate(): Promise<void> {
    return Promise.reject(readOnly());
  }

  setModified(): Promise<void> {
    return Promise.reject(readOnly());
  }

  async sync(): Promise<void> {}

  async close(): Promise<void> {}
}

/** Content in memory: what a row holds. */
export class RowFile extends ReadOnlyFile {
  readonly #bytes: Buffer;
  readonly #mtimeSeconds: number;

  constructor(bytes: Buffer, mtimeSeconds: number) {
    super();
    this.#bytes = bytes;
    this.#mtimeSeconds = mtimeSeconds;
  }

  async stat(): Promise<FileStat> {
    return { size: this.#bytes.length, mtimeSeconds: this.#mtimeSeconds, isFile: true };
  }

  async readAt(target: Buffer, position: number): Promise<number> {
    if (position >= this.#bytes.length) return 0;
    return this.#bytes.copy(target, 0, position);
  }
}

/** Content in another group: each read is a download of its range. */
export class AwayFile extends ReadOnlyFile {
  readonly #away: AwayFiles;
  readonly #record: FileRecord;

  constructor(away: AwayFiles, record: FileRecord) {
    super();
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

function readOnly(): Error {
  return Object.assign(new Error('the file was opened for reading'), { code: 'EBADF' });
}

function damaged(message: string): Error {
  return Object.assign(new Error(message), { code: 'EIO' });
}

/** Files that are open to be changed; none of them moves meanwhile. */

export interface ChangedFileParts {
  readonly file: DiskFile;
  /** Its size, once it has been cut and closed. */
  readonly onCut: (size: number) => void;
  readonly done: () => void;
}

export interface ChangedRowParts {
  readonly tier: Tier;
  readonly disk: Disk;
  readonly record: FileRecord;
  readonly bytes: Buffer;
  readonly limitBytes: number;
  /** It has left its row, and was closed. */
  readonly onGrown: (size: number) => void;
  readonly done: () => void;
}

/** One on the disk, changed in place. */
export class ChangedFile implements DiskFile {
  readonly #parts: ChangedFileParts;
  #cutTo: number | undefined;

  constructor(parts: ChangedFileParts) {
    this.#parts = parts;
  }

  stat(): Promise<FileStat> {
    return this.#parts.file.stat();
  }

  readAt(target: Buffer, position: number): Promise<number> {
    return this.#parts.file.readAt(target, position);
  }

  async writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    await this.#parts.file.writeAt(chunks, position);
  }

  async truncate(size: number): Promise<void> {
    const before = await this.#parts.file.stat();
    await this.#parts.file.truncate(size);
    if (size < before.size) this.#cutTo = size;
  }

  setModified(seconds: number): Promise<void> {
    return this.#parts.file.setModified(seconds);
  }

  sync(): Promise<void> {
    return this.#parts.file.sync();
  }

  async close(): Promise<void> {
    this.#parts.done();
    await this.#parts.file.close();
    if (this.#cutTo !== undefined) this.#parts.onCut(this.#cutTo);
  }
}

/**
 * A small one. It is changed in memory, or in a file under a temporary name once it is too
 * large for a row, and becomes what it was changed to, as a whole and durably, with `sync`.
 * What was not synced is gone when it is closed.
 */
export class ChangedRow implements DiskFile {
  readonly #parts: ChangedRowParts;
  readonly #content: SpillingFile;
  /** Once it is a file of its own. */
  #file: DiskFile | undefined;

  constructor(parts: ChangedRowParts) {
    const { disk, tier, limitBytes, bytes, record } = parts;
    this.#parts = parts;
    this.#content = new SpillingFile({
      disk,
      path: tier.temporaryFile(),
      limitBytes,
      bytes,
      mtimeSeconds: record.mtimeSeconds,
    });
  }

  stat(): Promise<FileStat> {
    return this.#now.stat();
  }

  readAt(target: Buffer, position: number): Promise<number> {
    return this.#now.readAt(target, position);
  }

  writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    return this.#now.writeAt(chunks, position);
  }

  truncate(size: number): Promise<void> {
    return this.#now.truncate(size);
  }

  setModified(seconds: number): Promise<void> {
    return this.#now.setModified(seconds);
  }

  async sync(): Promise<void> {
    if (this.#file) return this.#file.sync();
    const { tier, disk, record } = this.#parts;
    const { memory, mtimeSeconds } = this.#content;
    if (memory) {
      tier.becomeRow(record.name, { bytes: memory, mtimeSeconds });
      return tier.records.commit();
    }
    await this.#content.spill();
    await tier.becomeFile(record.name, this.#content.path, mtimeSeconds);
    this.#file = await disk.openToUpdate(tier.pathOf(record.name));
  }

  async close(): Promise<void> {
    const { done, onGrown, tier } = this.#parts;
    done();
    if (!this.#file) {
      const { memory } = this.#content;
      await this.#content.close();
      if (!memory) await tier.dropTemporary(this.#content.path);
      return;
    }
    const { size } = await this.#file.stat();
    await this.#file.close();
    onGrown(size);
  }

  get #now(): DiskFile {
    return this.#file ?? this.#content;
  }
}
