/**
 * All that Stevedore needs of a disk. Whatever must survive a crash goes through a given `Disk`, so
 * that a test can use one that loses what was not synced, or fails on demand. Failures are Errors
 * with the system's `code`.
 *
 * After a power failure a user may rely on this and no more: the bytes and the length of a file as
 * of its last `sync`; names as of the last `syncDirectory` of their directory, and for a new
 * directory that of its parent too. Syncing a file does not sync its name. A rename is atomic, but
 * until both directories are synced the file may also have its old name.
 *
 * A class in its type alone: TypeScript lets nobody spread an object of a class, so a disk is only
 * decorated by `decoratedDisk`, which passes on no optional operation by itself.
 */
export declare abstract class Disk {
  /**
   * Creates a file to write and read; EEXIST if the name exists. `isWrittenOnce`: it is written in
   * one piece and synced at once, so a disk may do both in one step.
   */
  abstract create(path: string, isWrittenOnce?: boolean): Promise<DiskFile>;
  /** Does not follow a symbolic link: ELOOP. */
  abstract openToRead(path: string): Promise<DiskFile>;
  /**
   * The whole file, if it has exactly so many bytes and none of them has to be waited for; undefined
   * otherwise, also for a link and where there is no file. Optional, as `DiskFile.readNow`.
   */
  readNow?(path: string, bytes: number): Buffer | undefined;
  /**
   * Creates a small file, whole and with this modification time. 'taken' if there is something at
   * `path`; undefined, with nothing done, if anything may have to be waited for. Leaves nothing if it
   * throws; if the process is killed, perhaps a part. Optional, for disks that do not sync.
   */
  createNow?(path: string, chunks: readonly Uint8Array[], mtimeSeconds: number): CreatedNow;
  /** To read and write; created if missing. Does not follow a symbolic link. */
  abstract openToUpdate(path: string): Promise<DiskFile>;
  /** Creates a symbolic link; EEXIST if the name exists. */
  abstract makeLink(target: string, path: string): Promise<void>;
  abstract readLink(path: string): Promise<DiskLink>;
  /** Replaces what is at `to`. */
  abstract rename(from: string, to: string): Promise<void>;
  /** ENOENT if there is nothing. Removes a link, not its target. */
  abstract unlink(path: string): Promise<void>;
  /** True also for a dangling link. */
  abstract exists(path: string): Promise<boolean>;
  /** Creates the directory and its parents where missing. */
  abstract makeDirectory(path: string): Promise<void>;
  /** Makes creations, renames and removals in the directory durable. */
  abstract syncDirectory(path: string): Promise<void>;
  /** Names in a directory; empty if there is no such directory. */
  abstract list(path: string): Promise<string[]>;
  abstract space(path: string): Promise<DiskSpace>;
  /**
   * Resolves when the disk would have made an access of so many bytes, for a library that opens
   * files by itself, such as SQLite. Optional: for models of a disk.
   */
  access?(bytes: number): Promise<void>;
}

export type CreatedNow = 'created' | 'taken' | undefined;

/** As `Disk`: decorated by `decoratedFile` alone. */
export declare abstract class DiskFile {
  abstract stat(): Promise<FileStat>;
  /** Fills `target`; resolves with fewer bytes only at the file's end. */
  abstract readAt(target: Buffer, position: number): Promise<number>;
  /**
   * As `readAt`, at once; undefined if the bytes may have to be waited for. Optional: for files that
   * the system keeps in memory.
   */
  readNow?(target: Buffer, position: number): number | undefined;
  /** Writes all chunks, one after the other, from `position` on. */
  abstract writeAt(chunks: readonly Uint8Array[], position: number): Promise<void>;
  /**
   * As `writeAt`, and these bytes, and a size that they extended, are durable when it resolves. It
   * does not cover earlier writes. After a rejection their state is unknown, as after a failed
   * `sync`. Concurrent calls each learn of their own failure. Optional: for disks where this is
   * faster than a write and a sync.
   */
  writeDurablyAt?(chunks: readonly Uint8Array[], position: number): Promise<void>;
  /** Closes what durable writes keep open for the next ones. */
  releaseDurable?(): Promise<void>;
  /** Truncates the file, or extends it with zeros. */
  abstract truncate(size: number): Promise<void>;
  /** Not durable, not even after `sync`: the time is not content. */
  abstract setModified(seconds: number): Promise<void>;
  /** Makes content and size durable. */
  abstract sync(): Promise<void>;
  abstract close(): Promise<void>;
}

export interface FileStat {
  readonly size: number;
  /** Unix seconds. */
  readonly mtimeSeconds: number;
  readonly isFile: boolean;
}

/** A symbolic link. */
export interface DiskLink {
  /** As it was created: relative to the link's directory. */
  readonly target: string;
  /** Unix seconds. */
  readonly mtimeSeconds: number;
}

export interface DiskSpace {
  readonly totalBytes: number;
  /** Available to unprivileged users. */
  readonly freeBytes: number;
}

/** True for a system error with this code (`ENOENT`, `ENOSPC`, ...). */
export function hasCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === code;
}

/** ENODATA, EBADMSG, EUCLEAN and EREMOTEIO of Linux; Node does not name all of them. */
const MEDIUM_NUMBERS: ReadonlySet<unknown> = new Set([-61, -74, -117, -121]);

/**
 * True if the medium failed a read: a bad sector, or a checksum mismatch of the file system. False
 * if the process or the system ran short of something.
 */
export function isMediumFailure(error: unknown): boolean {
  if (hasCode(error, 'EIO')) return true;
  if (process.platform !== 'linux') return false;
  return MEDIUM_NUMBERS.has((error as NodeJS.ErrnoException | undefined)?.errno);
}

/**
 * The file with some operations replaced, for a disk that counts, delays or fails them. An optional
 * operation that is not among the given ones is dropped: it would go past the others.
 */
export function decoratedFile(file: DiskFile, changed: Partial<DiskFile>): DiskFile {
  return {
    stat: () => file.stat(),
    readAt: (target, position) => file.readAt(target, position),
    writeAt: (chunks, position) => file.writeAt(chunks, position),
    truncate: (size) => file.truncate(size),
    setModified: (seconds) => file.setModified(seconds),
    sync: () => file.sync(),
    close: () => file.close(),
    ...changed,
  };
}

/**
 * The disk with some operations replaced, and every opened file decorated. As in `decoratedFile`,
 * optional operations that are not given are dropped.
 */
export function decoratedDisk(
  disk: Disk,
  changed: Partial<Disk>,
  decorate = (file: DiskFile, _path: string): DiskFile => decoratedFile(file, {}),
): Disk {
  const opened = async (opening: Promise<DiskFile>, path: string): Promise<DiskFile> =>
    decorate(await opening, path);
  return {
    create: (path, isWrittenOnce) => opened(disk.create(path, isWrittenOnce), path),
    openToRead: (path) => opened(disk.openToRead(path), path),
    openToUpdate: (path) => opened(disk.openToUpdate(path), path),
    makeLink: (target, path) => disk.makeLink(target, path),
    readLink: (path) => disk.readLink(path),
    rename: (from, to) => disk.rename(from, to),
    unlink: (path) => disk.unlink(path),
    exists: (path) => disk.exists(path),
    makeDirectory: (path) => disk.makeDirectory(path),
    syncDirectory: (path) => disk.syncDirectory(path),
    list: (path) => disk.list(path),
    space: (path) => disk.space(path),
    ...changed,
  };
}
