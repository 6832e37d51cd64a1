import { basename, dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Disk, DiskFile } from '@stevedore/disk';
import type { Payload } from '@stevedore/wire';
import { pieceName } from '../layout.js';
import type { NewFile, ReadableFile } from './file-backend.js';
import { copyBytes } from './file-backend.js';
import { newFileOnDisk } from './files-on-disk.js';

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
  get content(): ReadableFile {
    return this.#file.content;
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

/**
 * Bytes for a file that is there already. All of them are here before the file
 * is touched, so that a client that goes away in the middle changes nothing:
 * in memory if they are few, else in a temporary file.
 */

const MEMORY_BYTES = 64 * 1024;

export interface Piece {
  readonly bytes: number;
  /** The bytes, if they are in memory. */
  readonly chunks: readonly Buffer[];
  /** Otherwise, the name of the temporary file that holds them. */
  readonly name: string | undefined;
  /** Makes a temporary file outlive a power failure. */
  sync(): Promise<void>;
  writeTo(file: DiskFile, position: number): Promise<void>;
  /** Removes what the piece takes; call it once. */
  discard(): Promise<void>;
}

/** Receives the whole payload. */
export function receivePiece(
  disk: Disk,
  temporaryFile: () => string,
  payload: Payload,
): Promise<Piece> {
  return payload.remaining <= MEMORY_BYTES
    ? inMemory(payload)
    : inTemporaryFile(disk, pieceName(temporaryFile()), payload);
}

async function inMemory(payload: Payload): Promise<Piece> {
  const chunks: Buffer[] = [];
  while (payload.remaining > 0) chunks.push(...(await payload.next()));
  return {
    bytes: chunks.reduce((sum, chunk) => sum + chunk.length, 0),
    chunks,
    name: undefined,
    sync: async () => {},
    writeTo: (file, position) => file.writeAt(chunks, position),
    discard: async () => {},
  };
}

async function inTemporaryFile(disk: Disk, path: string, payload: Payload): Promise<Piece> {
  const incoming = new IncomingFile(await newFileOnDisk(disk, path));
  try {
    await incoming.receive(payload);
  } catch (error) {
    await incoming.discard().catch(() => {});
    throw error;
  }
  return {
    bytes: incoming.bytes,
    chunks: [],
    name: basename(path),
    async sync() {
      await incoming.sync();
      await disk.syncDirectory(dirname(path));
    },
    writeTo: (file, position) => copyBytes(incoming.content, incoming.bytes, file, position),
    discard: () => incoming.discard(),
  };
}
