import type { Disk, DiskFile, FileStat } from '@stevedore/disk';
import type { StripedFile } from '../io-tier/striped-file.js';
import { Place } from './constants.js';
import { GrowingBytes } from './growing-bytes.js';
import type { FileRecord } from './record-row.js';
import type { Tier } from './tier.js';

/**
 * Files that are open to be changed. A row is changed in memory and becomes durable as
 * a whole with `sync`; one that has outgrown its threshold becomes a data file then. What
 * was not synced is gone when the file is closed. A data file is changed in place, one on
 * I/O servers becomes what it was changed to with `sync`; their owner hears if they have
 * become shorter.
 */

export interface ChangedRowParts {
  readonly tier: Tier;
  readonly disk: Disk;
  readonly record: FileRecord;
  readonly bytes: Buffer;
  readonly limitBytes: number;
  readonly done: () => void;
}

export class ChangedRow implements DiskFile {
  readonly #parts: ChangedRowParts;
  readonly #memory: GrowingBytes;
  #mtimeSeconds: number;
  /** Once it has become a data file. */
  #file: DiskFile | undefined;

  constructor(parts: ChangedRowParts) {
    this.#parts = parts;
    this.#memory = new GrowingBytes(parts.bytes);
    this.#mtimeSeconds = parts.record.mtimeSeconds;
  }

  async stat(): Promise<FileStat> {
    if (this.#file) return this.#file.stat();
    return { size: this.#memory.size, mtimeSeconds: this.#mtimeSeconds, isFile: true };
  }

  async readAt(target: Buffer, position: number): Promise<number> {
    return this.#file ? this.#file.readAt(target, position) : this.#memory.readAt(target, position);
  }

  async writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    if (this.#file) await this.#file.writeAt(chunks, position);
    else this.#memory.writeAt(chunks, position);
  }

  async truncate(size: number): Promise<void> {
    if (this.#file) await this.#file.truncate(size);
    else this.#memory.truncate(size);
  }

  async setModified(seconds: number): Promise<void> {
    this.#mtimeSeconds = seconds;
    await this.#file?.setModified(seconds);
  }

  async sync(): Promise<void> {
    if (this.#file) return this.#file.sync();
    const { tier, disk, record, limitBytes } = this.#parts;
    const content = { bytes: this.#memory.bytes, mtimeSeconds: this.#mtimeSeconds };
    if (content.bytes.length > limitBytes) {
      const grown = await tier.growOut(record, content);
      this.#file =
        grown.place === Place.servers
          ? new ChangedStripes({
              tier,
              name: record.name,
              file: tier.changeDataFile(grown),
              onCut: () => {},
              done: () => {},
            })
          : await disk.openToUpdate(tier.pathOf(record.name));
      return;
    }
    await tier.becomeRow(record.name, content);
    tier.prepareToGrow(record.name, content.bytes.length, limitBytes);
    await tier.records.commit();
  }

  async close(): Promise<void> {
    this.#parts.done();
    await this.#file?.close();
  }
}

export interface ChangedDataFileParts {
  readonly file: DiskFile;
  /** Its size, once it has been cut and closed. */
  readonly onCut: (size: number) => void;
  readonly done: () => void;
}

export class ChangedDataFile implements DiskFile {
  readonly #parts: ChangedDataFileParts;
  #cutTo: number | undefined;

  constructor(parts: ChangedDataFileParts) {
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

export interface ChangedStripesParts {
  readonly tier: Tier;
  readonly name: string;
  readonly file: StripedFile;
  /** Its size, once it has been cut and closed. */
  readonly onCut: (size: number) => void;
  readonly done: () => void;
}

/** A data file on I/O servers, open to be changed. */
export class ChangedStripes implements DiskFile {
  readonly #parts: ChangedStripesParts;
  #cutTo: number | undefined;

  constructor(parts: ChangedStripesParts) {
    this.#parts = parts;
  }

  stat(): Promise<FileStat> {
    return this.#parts.file.stat();
  }

  readAt(target: Buffer, position: number): Promise<number> {
    return this.#parts.file.readAt(target, position);
  }

  writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    return this.#parts.file.writeAt(chunks, position);
  }

  async truncate(size: number): Promise<void> {
    const before = this.#parts.file.size;
    await this.#parts.file.truncate(size);
    if (size < before) this.#cutTo = size;
  }

  setModified(seconds: number): Promise<void> {
    return this.#parts.file.setModified(seconds);
  }

  async sync(): Promise<void> {
    const { tier, name, file } = this.#parts;
    if (!file.hasChanged) return;
    await file.sync();
    tier.recordChange(name, file);
    await tier.records.commit();
  }

  async close(): Promise<void> {
    this.#parts.done();
    await this.#parts.file.close();
    if (this.#cutTo !== undefined) this.#parts.onCut(this.#cutTo);
  }
}
