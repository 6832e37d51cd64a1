import type { DiskFile, DiskLink } from '@stevedore/disk';
import { Status } from '@stevedore/protocol';
import { StatusError } from '@stevedore/wire';

/**
 * Where stored files and their metadata are. A file is known by the path that its name
 * stands for; what of it is on the disk there is the backend's business. Either every file
 * is one on the disk (files-on-disk.ts), or small files are rows (@stevedore/tiering).
 *
 * Content is durable with the `sync` of the open file, metadata when `setMetadata` resolves,
 * and what was created, moved, linked or removed with `sync` of its path.
 */
export interface FileBackend {
  /**
   * A file without a name; `temporary` is free for it on the disk until it gets one.
   * `isWrittenOnce`: as in `Disk.create`.
   */
  create(temporary: string, isWrittenOnce?: boolean): Promise<NewFile>;
  /** ENOENT if there is none; ELOOP for a link. */
  openToRead(path: string): Promise<ReadableFile>;
  /** To read and to change in place. */
  openToChange(path: string): Promise<DiskFile>;
  /** True also for a link that leads nowhere. */
  exists(path: string): Promise<boolean>;
  /** Gives a file and its metadata another name; again after a failure, it moves the rest. */
  move(from: string, to: string): Promise<void>;
  /** ENOENT if there is none. Metadata may remain. */
  remove(path: string): Promise<void>;
  /** EEXIST if there is a file. */
  makeLink(target: string, path: string): Promise<void>;
  /** EINVAL if it is no link. */
  readLink(path: string): Promise<DiskLink>;
  sync(path: string): Promise<void>;
  hasMetadata(path: string): Promise<boolean>;
  metadata(path: string): Promise<StoredMetadata | undefined>;
  /** Undefined removes it. */
  setMetadata(path: string, metadata: StoredMetadata | undefined): Promise<void>;
  /** Base names in a directory, those of metadata with their suffix. */
  list(directory: string): Promise<string[]>;
  /** True where a change happens wholly or not at all: nothing is to be redone after a crash. */
  isAtomic(path: string): boolean;
}

/** A file that is open for reading. */
export type ReadableFile = Pick<DiskFile, 'stat' | 'readAt' | 'close'>;

/** A file that is being written. Close its content, then give it its name or discard it. */
export interface NewFile {
  readonly content: DiskFile;
  /** It takes the place of what is there. */
  moveTo(path: string): Promise<void>;
  discard(): Promise<void>;
}

export interface StoredMetadata {
  readonly text: Buffer;
  /** Unix seconds. */
  readonly mtimeSeconds: number;
}

/** Ways to read files. */

/** Bytes of a copy that are held in memory. */
const COPY_BYTES = 1024 * 1024;

/** Fills the target; a file that ends before is an error. */
export async function readInto(
  target: Buffer,
  file: ReadableFile,
  position: number,
): Promise<Buffer> {
  const read = await file.readAt(target, position);
  if (read < target.length) throw new Error(`a file is ${target.length - read} bytes short`);
  return target;
}

/** Copies the first bytes of a file to a place in another one. */
export async function copyBytes(
  from: ReadableFile,
  bytes: number,
  to: DiskFile,
  position: number,
): Promise<void> {
  for (let at = 0; at < bytes; at += COPY_BYTES) {
    const chunk = Buffer.allocUnsafe(Math.min(COPY_BYTES, bytes - at));
    await to.writeAt([await readInto(chunk, from, at)], position + at);
  }
}

/** Undefined where status 2 says that there is nothing. */
export async function ifThere<Found>(looking: Promise<Found>): Promise<Found | undefined> {
  try {
    return await looking;
  } catch (error) {
    if (error instanceof StatusError && error.status === Status.notFound) return undefined;
    throw error;
  }
}
