import { decodeFields, extensionOf, parseFileId, sizeOfField } from '@stevedore/protocol';
import {
  type DirectTrunk,
  directTrunk,
  type NewFile,
  StoreError,
  type TrunkSource,
  type TrunkStore,
} from '@stevedore/staging';
import { storageError } from '../read/failures.js';

/**
 * Direct mode, the data node paper's buffer: collects files for a moment, or up to a number of
 * bytes, and writes them to FastDFS group by group. The files of a group go to one storage as one
 * trunk, and each gets a slice id. A file without a group, or alone in one, is stored as it is.
 * No file is acknowledged before FastDFS has it.
 */

export interface DirectBufferOptions {
  readonly trunkStore: TrunkStore;
  readonly newTaskId: () => Buffer;
  /** Longest time to collect files. */
  readonly maxWaitMs: number;
  /** Once this many bytes are collected, they are written at once. */
  readonly maxBytes: number;
}

interface Waiting {
  readonly file: NewFile;
  readonly resolve: (fileId: string) => void;
  readonly reject: (error: unknown) => void;
}

/** Groups written at a time. */
const WRITES_IN_FLIGHT = 4;
const REMOVE_TIMEOUT_MS = 10_000;
/** The client's own deadlines bound a write; closing waits for it. */
const NEVER = new AbortController().signal;

export class DirectBuffer {
  readonly #options: DirectBufferOptions;
  /** By group, in order of arrival; each file without a group is a group of its own. */
  readonly #groups = new Map<string | symbol, Waiting[]>();
  readonly #writing = new Set<Promise<void>>();
  readonly #queued: (readonly Waiting[])[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DirectBufferOptions) {
    this.#options = options;
  }

  /** Resolves with the file's id once FastDFS has it. The file must have its body. */
  put(file: NewFile): Promise<string> {
    return new Promise((resolve, reject) => {
      const group = file.group ?? Symbol('alone');
      const waiting = this.#groups.get(group) ?? [];
      waiting.push({ file, resolve, reject });
      this.#groups.set(group, waiting);
      this.#bytes += file.size;
      if (this.#bytes >= this.#options.maxBytes) this.#writeAll();
      else this.#timer ??= setTimeout(() => this.#writeAll(), this.#options.maxWaitMs);
    });
  }

  /** Stores a file as it is, without waiting for others; resolves with its id. */
  putWhole(file: NewFile, pieces: TrunkSource['pieces']): Promise<string> {
    return this.#store(file.size, file.crc32, extensionOf(file.name), pieces);
  }

  /** Writes the collected files now. Resolves when no write is in flight. */
  async flush(): Promise<void> {
    this.#writeAll();
    while (this.#writing.size > 0) await Promise.race(this.#writing);
  }

  #writeAll(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#queued.push(...this.#groups.values());
    this.#groups.clear();
    this.#bytes = 0;
    this.#next();
  }

  #next(): void {
    while (this.#writing.size < WRITES_IN_FLIGHT) {
      const group = this.#queued.shift();
      if (!group) return;
      const written = this.#write(group).finally(() => {
        this.#writing.delete(written);
        this.#next();
      });
      this.#writing.add(written);
    }
  }

  /** Never rejects: every file of the group gets its answer. */
  async #write(group: readonly Waiting[]): Promise<void> {
    if (group.length > 1 && (await this.#writeTogether(group))) return;
    for (const { file, resolve, reject } of group) {
      await this.putWhole(file, () => once(file.body)).then(resolve, reject);
    }
  }

  /** False if the trunk's id allows no slice ids: the files must be stored one by one. */
  async #writeTogether(group: readonly Waiting[]): Promise<boolean> {
    try {
      const trunk: DirectTrunk = directTrunk(
        this.#options.newTaskId(),
        group.map(({ file }) => file),
      );
      const { size, crc32: crc, extension, chunks } = trunk;
      const trunkFileId = await this.#store(size, crc, extension, () => once(chunks));
      const ids = trunk.sliceIds(trunkFileId);
      if (ids.includes(undefined)) {
        await this.#remove(trunkFileId);
        return false;
      }
      for (const [index, { resolve }] of group.entries()) resolve(ids[index]!);
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
    return true;
  }

  /** Deletes the stored file again if its id does not show the size and CRC-32 that were sent. */
  async #store(
    size: number,
    crc: number,
    extension: string,
    pieces: TrunkSource['pieces'],
  ): Promise<string> {
    const source = { size, extension, pieces };
    let fileId = '';
    try {
      fileId = await this.#options.trunkStore.store(source, NEVER);
    } catch (error) {
      throw storageError(error, 'a new file');
    }
    const fields = decodeFields(parseFileId(fileId)!.base);
    if (fields.crc32 === crc && sizeOfField(fields.sizeField) === size) return fileId;
    await this.#remove(fileId);
    throw new StoreError(
      'storage_unavailable',
      `FastDFS stored ${fileId} wrongly, so it was deleted`,
    );
  }

  /** A copy that cannot be deleted does no harm: its id was never returned to anyone. */
  async #remove(fileId: string): Promise<void> {
    const signal = AbortSignal.timeout(REMOVE_TIMEOUT_MS);
    await this.#options.trunkStore.remove(fileId, signal).catch(() => undefined);
  }
}

async function* once(pieces: readonly Uint8Array[]): AsyncGenerator<readonly Uint8Array[]> {
  yield pieces;
}
