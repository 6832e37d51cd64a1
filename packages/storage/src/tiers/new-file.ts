import type { Disk, DiskFile, FileStat } from '@stevedore/disk';
import type { StripedFile } from '../io-tier/striped-file.js';
import { bytesOf, GrowingBytes } from './growing-bytes.js';

/**
 * A file that is being written under a temporary name: in memory while it may become a
 * row, on I/O servers or the disk as soon as it is too large for one. Its bytes in memory
 * become durable with the record that it turns into, not before.
 */

export interface NewFileParts {
  readonly disk: Disk;
  readonly path: string;
  /** The largest that may become a row. */
  readonly limitBytes: number;
  readonly nowSeconds: number;
  /** A data file on I/O servers; undefined: there are none, or its owner needs it on the disk. */
  readonly beginDataFile: () => StripedFile | undefined;
}

export class NewFile implements DiskFile {
  readonly #parts: NewFileParts;
  #memory: GrowingBytes | undefined = new GrowingBytes();
  #file: DiskFile | undefined;
  #dataFile: StripedFile | undefined;
  #mtimeSeconds: number;
  #isSynced = false;

  constructor(parts: NewFileParts) {
    this.#parts = parts;
    this.#mtimeSeconds = parts.nowSeconds;
  }

  /** Its bytes while they are in memory. */
  get memory(): Buffer | undefined {
    return this.#memory?.bytes;
  }

  /** Where its bytes are once they are on I/O servers. */
  get dataFile(): StripedFile | undefined {
    return this.#dataFile;
  }

  get mtimeSeconds(): number {
    return this.#mtimeSeconds;
  }

  async stat(): Promise<FileStat> {
    if (this.#file) return this.#file.stat();
    return { size: this.#memory!.size, mtimeSeconds: this.#mtimeSeconds, isFile: true };
  }

  async readAt(target: Buffer, position: number): Promise<number> {
    return this.#file
      ? this.#file.readAt(target, position)
      : this.#memory!.readAt(target, position);
  }

  async writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    const file = await this.#fileFor(position + bytesOf(chunks));
    if (file) await file.writeAt(chunks, position);
    else this.#memory!.writeAt(chunks, position);
  }

  async truncate(size: number): Promise<void> {
    const file = await this.#fileFor(size);
    if (file) await file.truncate(size);
    else this.#memory!.truncate(size);
  }

  async setModified(seconds: number): Promise<void> {
    this.#mtimeSeconds = seconds;
    await this.#file?.setModified(seconds);
  }

  async sync(): Promise<void> {
    this.#isSynced = true;
    await this.#file?.sync();
  }

  /** A data file stays open until it has a record, or is given up. */
  async close(): Promise<void> {
    this.#isSynced = false;
    if (!this.#dataFile) await this.#file?.close();
  }

  /**
   * Its directory is synced while it is open: if it has been synced, its owner relies on
   * it under its temporary name.
   */
  async keep(): Promise<void> {
    if (this.#memory && this.#isSynced) await (await this.#onDisk()).sync();
  }

  /** Puts what is in memory on the disk, synced, under the temporary name. */
  async spill(): Promise<void> {
    const file = await this.#onDisk();
    await file.setModified(this.#mtimeSeconds);
    await file.sync();
    await file.close();
  }

  async #fileFor(size: number): Promise<DiskFile | undefined> {
    if (this.#file || size <= this.#parts.limitBytes) return this.#file;
    const dataFile = this.#parts.beginDataFile();
    if (!dataFile) return this.#onDisk();
    await dataFile.writeAt([this.#memory!.bytes], 0);
    this.#dataFile = dataFile;
    this.#file = dataFile;
    this.#memory = undefined;
    return dataFile;
  }

  async #onDisk(): Promise<DiskFile> {
    if (this.#file) return this.#file;
    const { disk, path } = this.#parts;
    const file = await disk.create(path);
    await file.writeAt([this.#memory!.bytes], 0);
    this.#file = file;
    this.#memory = undefined;
    return file;
  }
}
