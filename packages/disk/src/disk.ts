/**
 * All that Stevedore asks of a disk. What must outlive a crash is written, read,
 * synced, renamed and removed through a `Disk` that is given, so that a test can put
 * one in its place that loses what was not synced, or fails on demand.
 * Failures are Errors with the system's `code`.
 *
 * What a user may rely on after a power failure, and no more: the bytes and the
 * length of a file as of its last `sync`; names as of the last `syncDirectory` of
 * the directory they are in, for a new directory that of the one above as well.
 * Syncing a file says nothing about its name. A rename happens wholly or not at all,
 * but until both directories are synced the file may also have its old name.
 */
export interface Disk {
  /**
   * A new file to write and read; EEXIST if there is something of that name. `isWrittenOnce`:
   * it is written in one piece and synced at once, so that a disk may do both in one step.
   */
  create(path: string, isWrittenOnce?: boolean): Promise<DiskFile>;
  /** Does not follow a symbolic link: ELOOP. */
  openToRead(path: string): Promise<DiskFile>;
  /** To read and write; made if there is none. Does not follow a symbolic link. */
  openToUpdate(path: string): Promise<DiskFile>;
  /** A new symbolic link; EEXIST if there is something of that name. */
  makeLink(target: string, path: string): Promise<void>;
  readLink(path: string): Promise<DiskLink>;
  /** Replaces what is at `to`. */
  rename(from: string, to: string): Promise<void>;
  /** ENOENT if there is nothing; a link goes, not what it leads to. */
  unlink(path: string): Promise<void>;
  /** True also for a link that leads nowhere. */
  exists(path: string): Promise<boolean>;
  /** Makes the directory and those above it; does nothing where they are. */
  makeDirectory(path: string): Promise<void>;
  /** Makes creations, renames and removals in the directory durable. */
  syncDirectory(path: string): Promise<void>;
  /** Names in a directory; none if there is no such directory. */
  list(path: string): Promise<string[]>;
  space(path: string): Promise<DiskSpace>;
}

export interface DiskFile {
  stat(): Promise<FileStat>;
  /** Fills the whole of `target`; resolves with fewer bytes only at the file's end. */
  readAt(target: Buffer, position: number): Promise<number>;
  /** Writes all of the chunks, one behind the other, from `position` on. */
  writeAt(chunks: readonly Uint8Array[], position: number): Promise<void>;
  /**
   * As `writeAt`; these bytes, and a size that grew by them, are on the medium when it
   * resolves. Nothing is said of what was written before. When it rejects, nothing is known
   * of them, as after a failed `sync`; each of several that are under way learns of its own
   * failure. Not every disk has it: it is for those where it is quicker than a write and
   * a sync.
   */
  writeDurablyAt?(chunks: readonly Uint8Array[], position: number): Promise<void>;
  /** Gives back what durable writes keep open for the next ones. */
  releaseDurable?(): Promise<void>;
  /** Cuts the file or fills it up with zeros. */
  truncate(size: number): Promise<void>;
  /** Not durable by itself, nor by `sync`: a time is no content. */
  setModified(seconds: number): Promise<void>;
  /** Content and size are on the medium when it resolves. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

export interface FileStat {
  readonly size: number;
  /** Unix seconds. */
  readonly mtimeSeconds: number;
  readonly isFile: boolean;
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

/** True for an error of the system with this code (`ENOENT`, `ENOSPC`, ...). */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** What Linux calls ENODATA, EBADMSG, EUCLEAN and EREMOTEIO; Node has no names for all of them. */
const MEDIUM_NUMBERS: ReadonlySet<unknown> = new Set([-61, -74, -117, -121]);

/**
 * True for a read that the medium could not answer: a bad sector, or a checksum of the file
 * system that does not match. Not for what the process or the system is short of.
 */
export function isMediumFailure(error: unknown): boolean {
  if (hasCode(error, 'EIO')) return true;
  if (process.platform !== 'linux' || !(error instanceof Error)) return false;
  return 'errno' in error && MEDIUM_NUMBERS.has(error.errno);
}

/**
 * The file with some operations done otherwise: for a disk that counts, delays or
 * fails what another disk does. It writes and syncs in two steps unless told otherwise.
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

/** The disk with every file that is opened decorated. */
export function decoratedDisk(disk: Disk, decorate: (file: DiskFile) => DiskFile): Disk {
  return {
    create: async (path, isWrittenOnce) => decorate(await disk.create(path, isWrittenOnce)),
    openToRead: async (path) => decorate(await disk.openToRead(path)),
    openToUpdate: async (path) => decorate(await disk.openToUpdate(path)),
    makeLink: (target, path) => disk.makeLink(target, path),
    readLink: (path) => disk.readLink(path),
    rename: (from, to) => disk.rename(from, to),
    unlink: (path) => disk.unlink(path),
    exists: (path) => disk.exists(path),
    makeDirectory: (path) => disk.makeDirectory(path),
    syncDirectory: (path) => disk.syncDirectory(path),
    list: (path) => disk.list(path),
    space: (path) => disk.space(path),
  };
}
