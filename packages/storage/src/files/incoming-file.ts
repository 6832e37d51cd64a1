import { basename, dirname } from 'node:path';
import { types } from 'node:util';
import { crc32 } from 'node:zlib';
import type { CreatedNow, Disk, DiskFile } from '@stevedore/disk';
import type { Payload } from '@stevedore/wire';
import { pieceName } from '../layout.js';
import { copyBytes, type FileBackend, type NewFile } from './file-backend.js';
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
 * under a temporary name. End with `finishAt` or `moveTo`, or with `discard`, which leaves nothing.
 */
export class IncomingFile {
  readonly #backend: Pick<FileBackend, 'create' | 'createNow'>;
  readonly #temporary: string;
  #created: NewFile | undefined;
  #open = false;
  #isNamed = false;
  /** The bytes of a small file until `finish`. */
  #chunks: Buffer[] | undefined;
  #bytes = 0;
  #crc32 = 0;
  #unsyncedBytes = 0;
  #syncing: Promise<void> | undefined;

  /** `temporary`: a name that is free until it ends. */
  constructor(backend: Pick<FileBackend, 'create' | 'createNow'>, temporary: string) {
    this.#backend = backend;
    this.#temporary = temporary;
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

  /**
   * Receives the payload: into memory if it is small, else to the disk at the disk's pace. A promise
   * if something has to be waited for.
   */
  receive(payload: Payload): Promise<void> | undefined {
    if (payload.remaining > MEMORY_BYTES) return this.#toDisk(payload);
    this.#chunks = [];
    while (payload.remaining > 0) {
      const chunks = payload.next();
      if (types.isPromise(chunks)) return this.#toMemory(payload, chunks);
      this.#keep(chunks);
    }
    return undefined;
  }

  async #toMemory(payload: Payload, first: Promise<Buffer[]>): Promise<void> {
    this.#keep(await first);
    while (payload.remaining > 0) this.#keep(await payload.next());
  }

  async #toDisk(payload: Payload): Promise<void> {
    await this.#begin(false);
    while (payload.remaining > 0) {
      const chunks = await payload.next();
      await this.content.writeAt(chunks, this.#bytes);
      this.#count(chunks);
      if (this.#unsyncedBytes >= SYNC_EVERY_BYTES) await this.#beginSync();
    }
  }

  #keep(chunks: readonly Buffer[]): void {
    this.#chunks?.push(...chunks);
    this.#count(chunks);
  }

  #count(chunks: readonly Buffer[]): void {
    for (const chunk of chunks) {
      this.#crc32 = crc32(chunk, this.#crc32);
      this.#bytes += chunk.length;
      this.#unsyncedBytes += chunk.length;
    }
  }

  async #begin(isWrittenOnce: boolean): Promise<void> {
    this.#created = await this.#backend.create(this.#temporary, isWrittenOnce);
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

  /** Creates the file at once under this name, if it is small and nothing has to be waited for. */
  createNow(path: string, mtimeSeconds: number): CreatedNow {
    if (!this.#chunks) return undefined;
    const created = this.#backend.createNow?.(path, this.#chunks, mtimeSeconds);
    this.#isNamed = created === 'created';
    return created;
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

  /** Makes the content durable and gives it its name; undefined if it has that. */
  finishAt(path: string, mtimeSeconds: number): Promise<void> | undefined {
    if (this.#isNamed) return undefined;
    return this.finish(mtimeSeconds).then(() => this.moveTo(path));
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
  readonly crc32: number;
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
    get crc32() {
      return chunks.reduce((crc, chunk) => crc32(chunk, crc), 0);
    },
    chunks,
    name: undefined,
    sync: async () => {},
    writeTo: (file, position) => file.writeAt(chunks, position),
    discard: async () => {},
  };
}

async function inTemporaryFile(disk: Disk, path: string, payload: Payload): Promise<Piece> {
  const incoming = new IncomingFile({ create: () => newFileOnDisk(disk, path) }, path);
  try {
    await incoming.receive(payload);
  } catch (error) {
    await incoming.discard().catch(() => {});
    throw error;
  }
  return {
    bytes: incoming.bytes,
    crc32: incoming.crc32,
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
