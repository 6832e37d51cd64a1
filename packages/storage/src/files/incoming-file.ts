import { crc32 } from 'node:zlib';
import type { Payload } from '@stevedore/wire';
import type { NewFile } from './file-backend.js';

/**
 * What may be written before a sync is begun. A large file that is synced only at
 * its end makes every other sync on the same disk wait for all of its bytes.
 */
const SYNC_EVERY_BYTES = 4 * 2 ** 20;

/**
 * A file that is being received, under a temporary name. Either it gets its
 * name (`moveTo`) or nothing of it is left (`discard`).
 */
export class IncomingFile {
  readonly #file: NewFile;
  #open = true;
  #bytes = 0;
  #crc32 = 0;
  #unsyncedBytes = 0;
  #syncing: Promise<void> | undefined;

  constructor(file: NewFile) {
    this.#file = file;
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
      await this.#file.content.writeAt(chunks, this.#bytes);
      for (const chunk of chunks) {
        this.#crc32 = crc32(chunk, this.#crc32);
        this.#bytes += chunk.length;
        this.#unsyncedBytes += chunk.length;
      }
      if (this.#unsyncedBytes >= SYNC_EVERY_BYTES) await this.#beginSync();
    }
  }

  /** One sync at a time goes on while the next bytes arrive. */
  async #beginSync(): Promise<void> {
    await this.#syncing;
    this.#unsyncedBytes = 0;
    this.#syncing = this.#file.content.sync();
    // Its failure is thrown where it is waited for.
    this.#syncing.catch(() => {});
  }

  /** Makes the content durable, with the modification time given. */
  async finish(mtimeSeconds: number): Promise<void> {
    await this.#syncing;
    await this.#file.content.setModified(mtimeSeconds);
    await this.#file.content.sync();
    await this.#close();
  }

  /** Makes the content durable under the temporary name, and goes on. */
  async sync(): Promise<void> {
    await this.#syncing;
    await this.#file.content.sync();
  }

  /** What has been received, before it is finished. */
  readAt(target: Buffer, position: number): Promise<number> {
    return this.#file.content.readAt(target, position);
  }

  moveTo(path: string): Promise<void> {
    return this.#file.moveTo(path);
  }

  async discard(): Promise<void> {
    await this.#close();
    await this.#file.discard();
  }

  async #close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#syncing?.catch(() => {});
    await this.#file.content.close();
  }
}
