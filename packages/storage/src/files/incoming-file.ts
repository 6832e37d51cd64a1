import { basename, dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Disk, DiskFile } from '@stevedore/disk';
import type { Payload } from '@stevedore/wire';
import { pieceName } from '../layout.js';
import type { NewFile } from './file-backend.js';
import { copyBytes } from './file-backend.js';
import { newFileOnDisk } from './files-on-disk.js';

/**
 * Bytes to write between syncs. Syncing a large file only at its end would make every other
 * sync on the same disk wait for all of its bytes.
 */
const SYNC_EVERY_BYTES = 4 * 2 ** 20;

/** Up to this size, bytes are received in memory and written to the disk in one step. */
export const MEMORY_BYTES = 64 * 1024;

/**
 * A file that is being received: a small one in memory until it is finished, a larger one
 * under a temporary name. End with `moveTo`, or with `discard`, which leaves nothing.
 */
export class IncomingFile {
  readonly #create: (isWrittenOnce: boolean) => Promise<NewFile>;
  #created: NewFile | undefined;
  #open = false;
  /** The bytes of a small file until `finish`. */
  #chunks: Buffer[] | undefined;
  #bytes = 0;
  #crc32 = 0;
  #unsyncedBytes = 0;
  #syncing: Promise<void> | undefined;

  /** `create` makes the temporary file. */
  constructor(create: (isWrittenOnce: boolean) => Promise<NewFile>) {
    this.#create = create;
  }

  /** Of the bytes received so far. */
  get crc32(): number {
    return this.#crc32;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** True if nothing is on the disk yet. */
  get isInMemory(): boolean {
    return this.#chunks !== undefined;
  }

  /** Receives the payload: into memory if it is small, else to the disk at the disk's pace. */
  async receive(payload: Payload): Promise<void> {
    if (payload.remaining <= MEMORY_BYTES) this.#chunks = [];
    else await this.#begin(false);
    while (payload.remaining > 0) {
      const chunks = await payload.next();
      if (this.#chunks) this.#chunks.push(...chunks);
      else await this.content.writeAt(chunks, this.#bytes);
      for (const chunk of chunks) {
        this.#crc32 = crc32(chunk, this.#crc32);
        this.#bytes += chunk.length;
        this.#unsyncedBytes += chunk.length;
      }
      if (this.#unsyncedBytes >= SYNC_EVERY_BYTES) await this.#beginSync();
    }
  }

  async #begin(isWrittenOnce: boolean): Promise<void> {
    this.#created = await this.#create(isWrittenOnce);
    this.#open = true;
  }

  /** Starts a sync that runs while the next bytes arrive, one at a time. */
  async #beginSync(): Promise<void> {
    await this.#syncing;
    this.#unsyncedBytes = 0;
    this.#syncing = this.content.sync();
    // Its error is thrown where the sync is awaited.
    this.#syncing.catch(() => {});
  }

  /** Makes the content durable, with this modification time, and closes it. */
  async finish(mtimeSeconds: number): Promise<void> {
    if (this.#chunks) {
      await this.#begin(true);
      await this.content.writeAt(this.#chunks, 0);
      this.#chunks = undefined;
    }
    await this.#syncing;
    await this.content.setModified(mtimeSeconds);
    await this.content.sync();
    await this.#close();
  }

  /** Makes a large file's content durable and keeps it open. */
  async sync(): Promise<void> {
    await this.#syncing;
    await this.content.sync();
  }

  /** The open content of a large file. */
  get content(): DiskFile {
    return this.#file.content;
  }

  moveTo(path: string): Promise<void> {
    return this.#file.moveTo(path);
  }

  async discard(): Promise<void> {
    await this.#close();
    await this.#created?.discard();
  }

  get #file(): NewFile {
    if (!this.#created) throw new TypeError('the file is in memory yet');
    return this.#created;
  }

  async #close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#syncing?.catch(() => {});
    await this.content.close();
  }
}

/**
 * Bytes for an existing file. They are received completely before the file is touched, so a
 * client that disconnects halfway changes nothing: in memory if they are few, else in a
 * temporary file.
 */

export interface Piece {
  readonly bytes: number;
  /** The bytes, if they are in memory. */
  readonly chunks: readonly Buffer[];
  /** Otherwise, the name of the temporary file that holds them. */
  readonly name: string | undefined;
  /** Makes the temporary file durable. */
  sync(): Promise<void>;
  writeTo(file: DiskFile, position: number): Promise<void>;
  /** Removes the temporary file; call it once. */
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
  const incoming = new IncomingFile(() => newFileOnDisk(disk, path));
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
