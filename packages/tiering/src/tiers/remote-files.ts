import { crc32 } from 'node:zlib';
import type { FileStat } from '@stevedore/disk';
import type { FastdfsClient, FetchTarget } from '@stevedore/fastdfs';
import { decodeFields, parseFileId, Status, sizeOfField } from '@stevedore/protocol';
import type { ReadableFile } from '@stevedore/storage';
import { codeOf, StatusError } from '@stevedore/wire';
import type { FileRecord } from './record-rows.js';

/**
 * Small files whose bytes are in another group, each an ordinary FastDFS file there. A copy never
 * changes, and only the storage that made it knows it. Its extension starts with `m` and identifies
 * that storage's records, so that orphans can be found.
 */
export interface RemoteFiles {
  /** Stores a copy and resolves with its id. `tag` identifies the records. */
  store(group: string, tag: string, content: RemoteContent): Promise<string>;
  read(id: string, offset: number, bytes: number): Promise<Buffer>;
  /** Resolves when nothing is at the id. */
  remove(id: string): Promise<void>;
  /** Ids in the group whose extension belongs to these records. */
  list(group: string, tag: string): AsyncIterable<string>;
}

export interface RemoteContent {
  readonly size: number;
  readonly chunks: () => AsyncIterable<Buffer>;
}

/** The other group refused the copy, or its result is unknown. */
export class RemoteError extends Error {
  override readonly name = 'RemoteError';
  /** False: nothing of it is stored. */
  readonly mayBeThere: boolean;

  constructor(message: string, mayBeThere: boolean, cause: unknown) {
    super(message, { cause });
    this.mayBeThere = mayBeThere;
  }
}

/** Six characters: stock storages add random digits to shorter extensions. */
const TAG_CHARS = 5;
/** Time for each of two attempts to read; then the answer is status 11. */
const READ_MS = 10_000;
/** How long reads of a group stay with one storage. */
const NEAR_MS = 5000;
const MOVED = /\.m[0-9a-z]{5}$/;

/** The extension of copies of a store path's files; `owner` identifies its records. */
export function tagOf(owner: Buffer): string {
  return Number(owner.readBigUInt64BE() % BigInt(36 ** TAG_CHARS))
    .toString(36)
    .padStart(TAG_CHARS, '0');
}

/** True for a file that another storage may have moved here: it does not move on. */
export function isMovedName(name: string): boolean {
  return MOVED.test(name);
}

/** True if the id shows this size and CRC-32: the other storage computed them on arrival. */
export function isCopy(id: string, size: number, sum: number): boolean {
  const parsed = parseFileId(id);
  if (!parsed) return false;
  const fields = decodeFields(parsed.base);
  return sizeOfField(fields.sizeField) === size && fields.crc32 === sum;
}

export function groupOf(id: string): string {
  return id.slice(0, id.indexOf('/'));
}

export class FastdfsRemoteFiles implements RemoteFiles {
  readonly #client: FastdfsClient;
  /** The storage last read from, by group, so that not every read asks a tracker. */
  readonly #near = new Map<string, { readonly storage: FetchTarget; readonly untilMs: number }>();
  /** Uploads that failed but may have stored something. */
  #orphans = 0;

  constructor(client: FastdfsClient) {
    this.#client = client;
    client.on('possibleOrphan', () => {
      this.#orphans += 1;
    });
  }

  async store(group: string, tag: string, { size, chunks }: RemoteContent): Promise<string> {
    const before = this.#orphans;
    try {
      return await this.#client.upload(chunks(), { group, size, extension: `m${tag}` });
    } catch (error) {
      throw new RemoteError(`${group} takes no copy`, this.#orphans > before, error);
    }
  }

  async read(id: string, offset: number, bytes: number): Promise<Buffer> {
    const range = { offset, length: bytes, maxBytes: bytes, deadlineMs: READ_MS };
    try {
      const storage = await this.#nearest(id);
      return await this.#client.downloadBytes(id, { ...range, storage });
    } catch {
      // It is away or does not have the file yet: the client asks the others.
      this.#near.delete(groupOf(id));
      return this.#client.downloadBytes(id, range);
    }
  }

  async #nearest(id: string): Promise<FetchTarget> {
    const group = groupOf(id);
    const known = this.#near.get(group);
    if (known && known.untilMs > performance.now()) return known.storage;
    const storage = await this.#client.locate(id);
    this.#near.set(group, { storage, untilMs: performance.now() + NEAR_MS });
    return storage;
  }

  async remove(id: string): Promise<void> {
    try {
      await this.#client.delete(id);
    } catch (error) {
      if (codeOf(error) !== 'not_found') throw error;
    }
  }

  async *list(group: string, tag: string): AsyncGenerator<string> {
    for (const storage of await this.#client.listStorages(group)) {
      const target = { group, address: storage.address, port: storage.storagePort };
      for (let path = 0; path < storage.storePathCount; path += 1) {
        for await (const { fileId } of this.#client.listFiles(target, { storePathIndex: path })) {
          if (parseFileId(fileId)?.name.endsWith(`.m${tag}`)) yield fileId;
        }
      }
    }
  }
}

/** Files open for reading that are not on this disk. */

/** Content in memory, of a row. */
export function rowFile(bytes: Buffer, mtimeSeconds: number): ReadableFile {
  return {
    bytes,
    stat: async () => ({ size: bytes.length, mtimeSeconds, isFile: true }),
    readAt: async (target, position) =>
      position < bytes.length ? bytes.copy(target, 0, position) : 0,
    close: async () => {},
  };
}

/** Opens the bytes in another group. */
export function openRemote(remote: RemoteFiles | undefined, record: FileRecord): ReadableFile {
  if (!remote)
    throw new Error(`${record.name} is in another storage group, and there are no trackers`);
  return new RemoteFile(remote, record);
}

/** Content in another group: each read downloads its range. */
class RemoteFile implements ReadableFile {
  readonly #remote: RemoteFiles;
  readonly #record: FileRecord;
  readonly #id: string;

  constructor(remote: RemoteFiles, record: FileRecord) {
    if (record.remote === undefined) throw damaged(`nothing says where ${record.name} is`);
    this.#remote = remote;
    this.#record = record;
    this.#id = record.remote;
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
      throw damaged(`${this.#id} has other bytes than ${this.#record.name}`);
    }
    return bytes.copy(target);
  }

  async close(): Promise<void> {}

  async #read(position: number, bytes: number): Promise<Buffer> {
    const id = this.#id;
    try {
      return await this.#remote.read(id, position, bytes);
    } catch (error) {
      // The file exists, whatever the other group says: its name must not look free.
      if (codeOf(error) === 'not_found') throw damaged(`${id} is lost`);
      throw Object.assign(new StatusError(Status.tryAgain, `${id} cannot be read`), {
        cause: error,
      });
    }
  }
}

function damaged(message: string): Error {
  return Object.assign(new Error(message), { code: 'EIO' });
}
