/**
 * All that a storage asks of a disk, so that a test can put one in its place
 * that loses what was not synced. Failures are Errors with the system's `code`.
 */

export interface FileStat {
  readonly size: number;
  /** Unix seconds. */
  readonly mtimeSeconds: number;
  readonly isFile: boolean;
}

export interface DiskFile {
  stat(): Promise<FileStat>;
  /** Reads into the whole of `target`; returns the bytes read, fewer only at the file's end. */
  readAt(target: Buffer, position: number): Promise<number>;
  /** Writes all of the chunks, one behind the other, from `position` on. */
  writeAt(chunks: readonly Buffer[], position: number): Promise<void>;
  /** Cuts the file or fills it up with zeros. */
  truncate(size: number): Promise<void>;
  setModified(seconds: number): Promise<void>;
  /** Content and size are on the medium when it resolves. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** A symbolic link. */
export interface DiskLink {
  /** As it was made: relative to the link's directory. */
  readonly target: string;
  /** Unix seconds. */
  readonly mtimeSeconds: number;
}

export interface DiskSpace {
  readonly totalBytes: number;
  /** What a user without privileges may still take. */
  readonly freeBytes: number;
}

export interface StorageDisk {
  /** A new file to write and read; EEXIST if there is one. */
  create(path: string): Promise<DiskFile>;
  /** Does not follow a symbolic link: ELOOP. */
  openToRead(path: string): Promise<DiskFile>;
  /** To read and write; made if there is none. */
  openToUpdate(path: string): Promise<DiskFile>;
  /** A new symbolic link; EEXIST if there is something. */
  makeLink(target: string, path: string): Promise<void>;
  readLink(path: string): Promise<DiskLink>;
  /** Replaces what is at `to`. Durable once the directory is synced. */
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** Makes the directory and those above it; does nothing where they are. */
  makeDirectory(path: string): Promise<void>;
  syncDirectory(path: string): Promise<void>;
  /** Names in a directory; none if there is no such directory. */
  list(path: string): Promise<string[]>;
  space(path: string): Promise<DiskSpace>;
}
