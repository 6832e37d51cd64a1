import { crc32 } from 'node:zlib';
import type { Disk, DiskFile, DiskLink } from '@stevedore/disk';

/**
 * Where stored files and their metadata are. The path that a name stands for identifies the
 * file, whether or not the backend keeps it there: files are on disk (files-on-disk.ts), or
 * small ones are rows of a database (@stevedore/tiering).
 *
 * Content is durable after `sync` of the open file, metadata when `setMetadata` resolves, and
 * a creation, move, link or removal after `sync` of its path.
 */
export interface FileBackend {
  /**
   * Creates a file without a name. Until it gets one, it may use the path `temporary` on disk.
   * `isWrittenOnce`: as in `Disk.create`.
   */
  create(temporary: string, isWrittenOnce?: boolean): Promise<NewFile>;
  /** ENOENT if there is none; ELOOP for a link. */
  openToRead(path: string): Promise<ReadableFile>;
  /** As in `Disk`. The reader may keep the bytes, not change them. */
  readNow?: Disk['readNow'];
  /** As in `Disk`. */
  createNow?: Disk['createNow'];
  /** Opens a file to read and to change it in place. */
  openToChange(path: string): Promise<DiskFile>;
  /** True also for a dangling link. */
  exists(path: string): Promise<boolean>;
  /** Renames a file and its metadata. After a failure, another call moves the rest. */
  move(from: string, to: string): Promise<void>;
  /** ENOENT if there is none. Metadata may remain. */
  remove(path: string): Promise<void>;
  /** EEXIST if the name is taken. */
  makeLink(target: string, path: string): Promise<void>;
  /** EINVAL if it is not a link. */
  readLink(path: string): Promise<DiskLink>;
  sync(path: string): Promise<void>;
  hasMetadata(path: string): Promise<boolean>;
  metadata(path: string): Promise<StoredMetadata | undefined>;
  /** Undefined removes it. */
  setMetadata(path: string, metadata: StoredMetadata | undefined): Promise<void>;
  /** Base names in a directory, including those of metadata, with their suffix. */
  list(directory: string): Promise<string[]>;
  /** True if changes to this file are atomic: none is replayed after a crash. */
  isAtomic(path: string): boolean;
}

/** A file that is open for reading. */
export interface ReadableFile extends Pick<DiskFile, 'stat' | 'readAt' | 'close'> {
  /** Its content, if that was read when it was opened. The reader may keep it, not change it. */
  readonly bytes?: Buffer;
}

/** A file that is being written. Close its content, then move or discard it. */
export interface NewFile {
  readonly content: DiskFile;
  /** Replaces a file of that name. */
  moveTo(path: string): Promise<void>;
  discard(): Promise<void>;
}

export interface StoredMetadata {
  readonly text: Buffer;
  /** Unix seconds. */
  readonly mtimeSeconds: number;
}

/** Bytes that are read at a time. */
export const CHUNK_BYTES = 256 * 1024;

/** Fills the target; throws if the file ends before. */
export async function readInto(
  target: Buffer,
  file: ReadableFile,
  position: number,
): Promise<Buffer> {
  const read = await file.readAt(target, position);
  if (read < target.length) throw new Error(`a file is ${target.length - read} bytes short`);
  return target;
}

/** So many bytes of a file, in order, in the same memory: each chunk is valid until the next. */
export async function* chunksOf(
  file: ReadableFile,
  bytes: number,
  from = 0,
): AsyncGenerator<Buffer> {
  const room = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, bytes));
  for (let at = 0; at < bytes; at += CHUNK_BYTES) {
    yield await readInto(room.subarray(0, Math.min(CHUNK_BYTES, bytes - at)), file, from + at);
  }
}

/** Copies the first bytes of a file to a position in another one. */
export async function copyBytes(
  from: ReadableFile,
  bytes: number,
  to: DiskFile,
  position: number,
): Promise<void> {
  let at = position;
  for await (const chunk of chunksOf(from, bytes)) {
    await to.writeAt([chunk], at);
    at += chunk.length;
  }
}

/** CRC-32 of the first bytes of a file. */
export async function crcOf(file: ReadableFile, bytes: number): Promise<number> {
  let crc = 0;
  for await (const chunk of chunksOf(file, bytes)) crc = crc32(chunk, crc);
  return crc;
}
