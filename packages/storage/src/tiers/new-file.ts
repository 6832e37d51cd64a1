import type { Disk, DiskFile, FileStat } from '@stevedore/disk';
import { bytesOf, GrowingBytes } from './growing-bytes.js';

/**
 * A file that is being written under a temporary name: in memory while it may become a
 * row, on the disk as soon as it is too large for one. Its bytes in memory become
 * durable with the record that it turns into, not before.
 */
export class NewFile implements DiskFile {
  readonly #disk: Disk;
  readonly #path: string;
  readonly #limitBytes: number;
  #memory: GrowingBytes | undefined = new GrowingBytes();
  #file: DiskFile | undefined;
  #mtimeSeconds: number;
  #isSynced = false;

  constructor(disk: Disk, path: string, limitBytes: number, nowSeconds: number) {
    this.#disk = disk;
    this.#path = path;
    this.#limitBytes = limitBytes;
    this.#mtimeSeconds = nowSeconds;
  }

  /** Its bytes while they are in memory. */
  get memory(): Buffer | undefined {
    return this.#memory?.bytes;
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

  async close(): Promise<void> {
    this.#isSynced = false;
    await this.#file?.close();
  }

  /**
   * Its directory is synced while it is open: if it has been synced, its owner relies on
   * it under its temporary name.
   */
  async keep(): Promise<void> {
    if (this.#memory && this.#isSynced) await (await this.#spilled()).sync();
  }

  /** Puts what is in memory on the disk, synced, under the temporary name. */
  async spill(): Promise<void> {
    const file = await this.#spilled();
    await file.setModified(this.#mtimeSeconds);
    await file.sync();
    await file.close();
  }

  async #fileFor(size: number): Promise<DiskFile | undefined> {
    if (this.#file || size <= this.#limitBytes) return this.#file;
    return this.#spilled();
  }

  async #spilled(): Promise<DiskFile> {
    if (this.#file) return this.#file;
    const file = await this.#disk.create(this.#path);
    await file.writeAt([this.#memory!.bytes], 0);
    this.#file = file;
    this.#memory = undefined;
    return file;
  }
}
