import { crc32 } from 'node:zlib';
import type { Payload } from '../net/payload.js';
import type { DiskFile, StorageDisk } from './disk.js';

/**
 * A file that is being received, under a temporary name. Either it gets its
 * name (`moveTo`) or nothing of it is left (`discard`).
 */
export class IncomingFile {
  readonly #disk: StorageDisk;
  readonly #path: string;
  readonly #file: DiskFile;
  #open = true;
  #bytes = 0;
  #crc32 = 0;

  private constructor(disk: StorageDisk, path: string, file: DiskFile) {
    this.#disk = disk;
    this.#path = path;
    this.#file = file;
  }

  static async create(disk: StorageDisk, path: string): Promise<IncomingFile> {
    return new IncomingFile(disk, path, await disk.create(path));
  }

  /** Of what has been written. */
  get crc32(): number {
    return this.#crc32;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Writes what the client sends, as fast as the disk takes it. */
  async receive(payload: Payload): Promise<void> {
    for (;;) {
      const chunks = await payload.next();
      if (chunks.length === 0) return;
      await this.#file.writeAt(chunks, this.#bytes);
      for (const chunk of chunks) {
        this.#crc32 = crc32(chunk, this.#crc32);
        this.#bytes += chunk.length;
      }
    }
  }

  /** Makes the content durable, with the modification time given. */
  async finish(mtimeSeconds: number): Promise<void> {
    await this.#file.setModified(mtimeSeconds);
    await this.#file.sync();
    await this.#close();
  }

  moveTo(path: string): Promise<void> {
    return this.#disk.rename(this.#path, path);
  }

  async discard(): Promise<void> {
    await this.#close();
    await this.#disk.unlink(this.#path);
  }

  async #close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#file.close();
  }
}
